// The run page: an experiment, its form, the run under way or one that is stored, and everything that shows it.

import { byId, copyButton, fill, h, number, prose } from "./dom.js";
import { Clock } from "./clock.js";
import { onThemeChange } from "./colors.js";
import { awaitClaims, showClaims } from "./claims.js";
import { showFigures } from "./figures.js";
import { Form } from "./form.js";
import { namesFrom } from "./legend.js";
import { knobs } from "./link.js";
import { Panels } from "./panels.js";
import { Runs } from "./runs.js";
import { ask, pathOf } from "./server.js";
import { View, viewsOf } from "./views.js";

const PAGE = crypto.randomUUID(); // tells the runs of this page from those of other tabs
const fresh = (number = 0) => ({ number, views: new Map(), theory: new Map(), others: [], measured: false, fields: {}, names: null });
const SHIPS = "From the evidence that ships with dynascope, of the quick run at seed 0; its curves are thinned, or begin it.";
const NOTHING_RUN = "These settings have not been run: press Run, and the curves grow while the network trains.";

export class Runner {
  constructor() {
    this.state = fresh();
    this.busy = false;
    this.code = { command: "", python: "", link: "" };
    this.clock = new Clock(byId("clock"), () => this.panels.draw());
    this.panels = new Panels(byId("panels"), this.clock);
    this.form = new Form(byId("form"), () => this.run(), (code) => this.checked(code), () => this.address());
    this.runs = new Runs(() => this.redraw());
    this.controls();
    onThemeChange(() => this.panels.draw());
  }

  controls() {
    this.pause = h("button", { type: "button", id: "pause", onclick: () => ask(this.paused ? "/api/resume" : "/api/pause", {}).then(() => this.setPaused(!this.paused)) }, "Pause");
    this.stop = h("button", { type: "button", id: "stop", onclick: () => { this.say("stopping"); ask("/api/stop", {}); } }, "Stop");
    this.start = h("button", { type: "submit", form: "form", class: "plain main", id: "run" }, "Run");
    this.output = h("output", { id: "progress", "aria-live": "off" });
    this.bar = h("i");
    const tell = (kind, label) => h("button", { type: "button", id: `show-${kind}`, "aria-expanded": "false", "aria-controls": "code", onclick: () => {
      this.shownCode = this.shownCode === kind ? null : kind;
      this.showCode();
    } }, label);
    this.codeButtons = { command: tell("command", "Command"), python: tell("python", "Python"), link: tell("link", "Link") };
    this.codeBox = h("pre", {}, h("code", {}));
    this.codeArea = h("div", { id: "code", class: "command code", hidden: true }, this.codeBox, copyButton(() => this.codeBox.textContent));
    fill(byId("controls"), this.start, this.pause, this.stop, this.output, Object.values(this.codeButtons), h("div", { id: "bar" }, this.bar), this.codeArea);
    this.setBusy(false);
  }

  // The form is fine, and has this command and Python.
  checked(code) {
    this.code = { ...code, link: `${location.origin}/#/run/${this.id}${this.knobs()}` };
    this.showCode();
  }

  // None while the form of this experiment is still on its way.
  knobs() { return this.form.experiment?.id === this.id ? knobs(this.form.asked(), this.form.usual) : ""; }

  showCode() {
    for (const [kind, button] of Object.entries(this.codeButtons)) button.setAttribute("aria-expanded", String(kind === this.shownCode));
    this.codeArea.hidden = !this.shownCode;
    if (this.shownCode) this.codeBox.firstChild.textContent = this.code[this.shownCode];
  }

  setBusy(busy) {
    this.busy = busy;
    this.pause.disabled = this.stop.disabled = !busy;
    if (busy) this.began = performance.now();
    clearInterval(this.ticking);
    this.ticking = busy ? setInterval(() => this.tick(), 1000) : 0;
    byId("panels").dataset.busy = String(busy);
    if (!busy) this.setPaused(false);
  }

  setPaused(paused) {
    this.paused = paused;
    this.pause.textContent = paused ? "Continue" : "Pause";
    if (paused) this.say("paused");
  }

  // Where nothing is heard for a while (it compiles, or has no steps to count), the seconds show that it is alive.
  tick() {
    const seconds = Math.round((performance.now() - this.began) / 1000);
    if (!this.paused && performance.now() - this.said > 1500) this.output.textContent = `${this.text}, ${seconds} s so far`;
  }

  say(text, share = null) {
    this.output.textContent = this.text = text;
    this.said = performance.now();
    if (share !== null) this.bar.style.width = `${100 * share}%`;
  }

  empty(...content) {
    this.panels.draw(this.state);
    fill(byId("panels"), typeof content[0] === "string" ? h("p", { class: "empty" }, content[0]) : content);
  }

  // Say which run is shown.
  tell(text) {
    byId("shown").hidden = !text;
    byId("shown").textContent = text;
  }

  // Show an experiment with its form; `set` are the settings of a run. It opens on a run if `open`.
  async pick(id, set = undefined, open = false) {
    const other = this.id !== id;
    this.id = id;
    if (open && other && !set) await this.early(id);
    const experiment = await ask(pathOf("experiments", id));
    if (this.id !== id) return;
    this.experiment = experiment;
    byId("picked").textContent = id;
    byId("picker").open = false;
    byId("controls").hidden = false;
    this.panels.about(id, experiment.captions);
    document.title = `${id} · dynascope live`;
    const source = [experiment.document, experiment.place].filter(Boolean).join(", ");
    fill(byId("head"), prose("h1", experiment.heading), h("p", { class: "soft" }, experiment.url ? h("a", { href: experiment.url, rel: "noreferrer", target: "_blank" }, source) : source, `; ${experiment.cost}`),
      experiment.notes.length ? h("details", {}, h("summary", { class: "soft" }, "Notes"), experiment.notes.map((part) => prose("p", part))) : null);
    this.form.show(experiment, set);
    if ((other || open) && !this.underWay(id)) {
      this.say("", 0);
      if (open) await this.open(id); else this.shown(fresh());
    }
    if (this.id === id) await this.runs.load(id, this.digest);
  }

  // What ships is there before the experiment is loaded, which takes a second.
  async early(id) {
    if (this.shipped === id) return;
    this.shipped = id;
    const found = await ask(pathOf("showcase", id)).catch(() => null);
    if ((this.id ?? id) !== id || this.experiment?.id === id || !found?.measured.length || found.is_stored) return;
    this.panels.about(id, found.captions);
    this.showShipped(found);
  }

  showShipped(found) {
    this.shown({ ...fresh(), views: viewsOf(found.measured), theory: viewsOf(found.predicted) });
    showClaims(found.claims, SHIPS);
    this.tell(found.claims.length ? `${SHIPS} Press Run to repeat it here.` : "");
  }

  underWay(id) { return this.busy && this.running?.id === id; }

  // Open on the stored run of these settings, or on what ships of the experiment.
  async open(id) {
    const found = await ask("/api/opening", this.form.asked()).catch(() => ({ claims: [], measured: [], predicted: [] }));
    if (this.id !== id || this.underWay(id)) return;
    if (found.digest) {
      await this.showStored(id, found.digest);
      return;
    }
    this.showShipped(found);
    if (found.measured.length) return;
    if (found.picture) this.empty(h("figure", { class: "shipped" }, h("img", { src: `/assets/${found.picture}`, alt: `Figure of ${id}` })));
    else this.empty(NOTHING_RUN);
  }

  // The address of what is shown, for a reload: a stored run, or the knobs as they are.
  address(digest = "") {
    if (/^#\/(run|$)/.test(location.hash || "#/")) history.replaceState(null, "", `#/run/${this.id}${digest ? `/${digest}` : this.knobs()}`);
  }

  // The first that is heard of what a run records: from here on it is the one that is shown.
  begun() {
    if (this.next) this.state = this.next;
    this.next = null;
  }

  shown(state) {
    this.state = state;
    this.digest = "";
    this.tell("");
    showClaims([]);
    showFigures(null);
    this.redraw();
  }

  redraw() {
    this.state.others = this.runs.others;
    this.clock.follow(this.state.views);
    this.panels.draw(this.state);
  }

  async run() {
    try {
      await ask("/api/run", { ...this.form.asked(), page: PAGE });
      this.form.refuse({});
    } catch (error) {
      this.form.refuse(error.fields, error.message);
    }
  }

  async showStored(id, digest) {
    const [run, found] = await Promise.all([ask(pathOf("runs", id, digest)), ask(pathOf("runs", id, digest, "views"))]);
    if (id !== this.id) return;
    const state = this.state.measured && this.state.stored === digest ? this.state : { ...fresh(this.state.number), stored: digest };
    state.fields = run.settings;
    state.views = viewsOf(found.measured);
    state.theory = viewsOf(found.predicted);
    this.shown(state);
    this.digest = digest;
    showClaims(run.claims);
    showFigures(run);
    this.tell(`Stored run ${digest.slice(0, 8)}: ${[run.preset || "full", run.seed ? `seed ${run.seed}` : ""].filter(Boolean).join(", ")}, finished ${run.finished}.`);
    if (!state.views.size) this.empty("Nothing in this run moves with time: its figures and claims are below.");
    this.code = { command: run.command, python: run.python, link: `${location.origin}/#/run/${id}/${digest}` };
    this.showCode();
    await this.runs.load(id, digest);
  }

  // The events of the run under way. A page that shows another experiment only hears that it began.
  handlers() {
    const mine = (handle) => (facts) => { if (this.running && this.running.id === this.id) handle(facts); };
    return {
      begin: (facts) => {
        this.running = facts;
        this.setBusy(true);
        delete byId("panels").dataset.ended;
        if (!this.id) {
          if (!location.hash.replace(/^#\/?/, "")) history.replaceState(null, "", `#/run/${facts.id}`);
          this.pick(facts.id, facts);
        } else if (this.id === facts.id && facts.page !== PAGE && this.experiment?.id === facts.id) {
          this.form.show(this.experiment, facts); // begun in another tab, or before this page was loaded
        }
        if (this.id !== facts.id) { this.say(`${facts.id} is running`); return; }
        this.address();
        this.next = { ...fresh(facts.number), fields: this.form.texts() }; // what was shown stays until there is something new: the plots are used again
        this.digest = "";
        this.tell("");
        byId("panels").dataset.points = 0;
        awaitClaims();
        showFigures(null);
        if (!this.state.views.size) this.empty("Curves appear here as soon as something is recorded. An experiment that records none shows its claims and figures at the end.");
        this.say("preparing: imports, data and the first step", 0);
      },
      part: mine(({ variables }) => {
        this.begun();
        this.state.views = new Map(variables.map((header) => [header.name, new View(header)]));
        const groups = Math.max(1, ...variables.map((header) => header.group_labels.length));
        this.state.names = namesFrom(this.experiment?.captions.legend, this.state.fields, groups);
        this.say("compiling the training for these shapes");
      }),
      rows: mine(({ rows }) => {
        for (const row of rows) this.state.views.get(row.name)?.add(row);
        this.redraw();
      }),
      trace: mine(({ file, variables }) => {
        this.begun();
        if (file === "measured" && variables.length) this.state.views = viewsOf(variables);
        if (file === "predicted") this.state.theory = viewsOf(variables);
        this.redraw();
      }),
      claims: mine(({ claims }) => showClaims(claims)),
      progress: (facts) => {
        if (this.paused) return;
        const share = facts.total ? facts.done / facts.total : 1;
        const of = facts.total ? ` ${number(Math.round(facts.done))} of ${number(Math.round(facts.total))}` : "";
        const left = facts.left && share < 1 ? `, ${facts.left < 1 ? "a moment" : `${Math.round(facts.left)} s`} left` : "";
        this.say(`${facts.part > 1 ? `part ${facts.part}: ` : ""}${facts.what}${of}${left}`, share);
      },
      warning: ({ message }) => this.say(message),
      ended: async (facts) => {
        this.setBusy(false);
        this.say(facts.how === "done" ? (facts.reused ? "stored already" : "done, and stored") : facts.message, facts.how === "done" ? 1 : null);
        byId("panels").dataset.ended = facts.how;
        if (this.running?.id !== this.id) return;
        if (facts.how === "done") {
          this.begun();
          this.state.stored = facts.digest;
          this.state.measured = this.state.views.size > 0;
          this.address(facts.digest);
          await this.showStored(facts.id, facts.digest);
        } else {
          if (this.next) this.shown(this.next);
          this.next = null;
          if (!this.state.views.size) this.empty(facts.message);
          await this.runs.load(this.id);
        }
      },
      gone: () => this.setBusy(false),
    };
  }
}
