"""The page at ``/``: ask a question or play a household game, and see who answers and why. No link leads outside."""

from dualmind import html

_LEAD = "System 1 answers at once. Where the gate does not trust it, System 2 thinks."

_STYLE = """<style>
textarea, input, button, select { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line);
  border-radius: 6px; padding: .45rem .7rem; } textarea { width: 100%; min-height: 5rem; }
button { cursor: pointer; } button.main { background: var(--accent); color: #fff; border-color: var(--accent); }
button:disabled { opacity: .5; cursor: wait; } label { display: block; margin-bottom: .35rem; }
.row { display: flex; flex-wrap: wrap; gap: .5rem; margin: .6rem 0; align-items: center; }
.bar { position: relative; height: .8rem; background: var(--back); border: 1px solid var(--line); border-radius: 6px; }
.bar i { position: absolute; inset: 0 auto 0 0; background: var(--accent); border-radius: 6px; }
.bar b { position: absolute; top: -.25rem; bottom: -.25rem; width: 2px; background: var(--bad); }
#said { font-size: 1.25rem; font-weight: 600; } #problem:empty, .hidden { display: none; }
</style>"""

_ASK = """<h2>Ask</h2>
<form id="ask"><label for="question">A question, such as: sort these numbers from small to large : 81 10 44</label>
<textarea id="question" maxlength="4000" required></textarea>
<div class="row"><button class="main" id="send">Ask</button></div></form>"""

_PLAY = """<h2>Play</h2>
<div class="row"><button id="new">New game</button><button id="advise" class="main" disabled>Ask the agent</button>
<button id="obey" disabled>Do what it says</button></div>
<p id="goal"></p><pre id="observation" class="hidden"></pre>
<div class="row"><label for="command">Or your own command</label><select id="command" disabled></select>
<button id="give" disabled>Do it</button></div>"""

_ANSWER = """<h2>Answer</h2><p id="problem" class="bad" role="alert"></p>
<div id="answer" class="hidden" aria-live="polite"><p id="said"></p><p id="who"></p>
<p class="soft">Score <span id="score"></span> against threshold <span id="threshold"></span></p>
<div class="bar"><i id="fill"></i><b id="mark"></b></div>
<div class="scroll"><table><thead><tr><th>Signal</th><th class="number">Value</th></tr></thead>
<tbody id="signals"></tbody></table></div>
<h3>Steps of thought</h3><ol id="steps"></ol><p id="nosteps" class="soft">None were needed.</p>
<p class="soft">Cost: <span id="flops"></span> FLOPs, <span id="ms"></span> ms. Release <span id="release"></span>.</p>
<div class="row"><button id="right">That is right</button><button id="wrong">That is wrong</button>
<span id="thanks" class="soft"></span></div></div>"""

_SCRIPT = """<script>
"use strict";
const at = (id) => document.getElementById(id);
const put = (id, text) => { at(id).textContent = text; };
const TIERS = { system1: "System 1 answered at once.", shallow: "System 2 answered after a short thought.",
  full: "System 2 answered after all of its thought." };
let game = null, last = null, number = Math.floor(Math.random() * 1000);
async function call(path, body) {
  const sent = await fetch(path, { method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify(body) });
  const got = await sent.json();
  if (!sent.ok) throw new Error(got.error);
  return got;
}
async function busy(work) {
  put("problem", "");
  const buttons = [...document.querySelectorAll("button")].filter((own) => !own.disabled);
  buttons.forEach((own) => { own.disabled = true; });
  try { await work(); } catch (error) { put("problem", error.message); }
  buttons.forEach((own) => { own.disabled = false; });
  arm();
}
function arm() {
  const open = game !== null && !game.over;
  for (const id of ["advise", "command", "give"]) at(id).disabled = !open;
  at("obey").disabled = !open || last === null || !last.command;
}
function show(got) {
  last = got;
  at("answer").classList.remove("hidden");
  put("said", got.command || got.answer || "(nothing)");
  const own = got.tier === "system1" ? "" : " System 1 alone: " + (got.system1_answer || "(nothing)") + ".";
  put("who", TIERS[got.tier] + own);
  put("score", got.score.toFixed(3));
  put("threshold", got.threshold.toFixed(3));
  at("fill").style.width = 100 * Math.min(1, Math.max(0, got.score)) + "%";
  at("mark").style.left = 100 * Math.min(1, Math.max(0, got.threshold)) + "%";
  const lines = ["confidence", "difficulty", "curvature", "monitor"].map((name) => {
    const [line, head, value] = ["tr", "td", "td"].map((tag) => document.createElement(tag));
    head.textContent = name;
    value.textContent = got[name] === null ? "no number" : got[name].toFixed(4);
    value.className = "number";
    line.append(head, value);
    return line;
  });
  at("signals").replaceChildren(...lines);
  at("steps").replaceChildren(...got.steps.map((text) => {
    const line = document.createElement("li");
    line.textContent = text;
    return line;
  }));
  at("nosteps").classList.toggle("hidden", got.steps.length > 0);
  put("flops", got.flops.toLocaleString("en"));
  put("ms", got.latency_ms.toFixed(1));
  put("release", got.release + ", state " + got.state);
  put("thanks", "");
}
function view(got) {
  game = got;
  last = null;
  put("goal", got.goal);
  const end = got.won ? "\\n\\nWon in " + got.steps + " steps." : got.over ? "\\n\\nOver." : "";
  put("observation", got.observation + end);
  at("observation").classList.remove("hidden");
  at("command").replaceChildren(...got.commands.map((text) => new Option(text)));
}
const step = async (command) => view(await call("/episode/" + game.episode + "/step", { command }));
const judge = (correct) => busy(async () => {
  const got = await call("/feedback", { request_id: last.request_id, correct });
  put("thanks", got.outcome === "recorded" ? "Thank you." : "You said so before.");
});
at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  busy(async () => show(await call("/act", { domain: "reasoning", text: at("question").value })));
});
at("new").addEventListener("click", () => busy(async () => view(await call("/episode", { number: number++ }))));
at("advise").addEventListener("click",
  () => busy(async () => show(await call("/act", { domain: "household", episode: game.episode }))));
at("obey").addEventListener("click", () => busy(() => step(last.command)));
at("give").addEventListener("click", () => busy(() => step(at("command").value)));
at("right").addEventListener("click", () => judge(true));
at("wrong").addEventListener("click", () => judge(false));
</script>"""


def page() -> str:
    """The whole page."""
    return html.page("dualmind", _LEAD, [_STYLE + _ASK, _PLAY, _ANSWER + _SCRIPT])
