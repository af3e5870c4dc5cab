// @ts-check
// The page of a report, or of some views of it: what is selected in all of them, and the link that says so.
import { button, byId, el } from "./dom.js";
import { Trace } from "./events.js";
import { unpackedEvents } from "./levels.js";
import { Matching } from "./matching.js";
import { Page, hasAddress } from "./page.js";
import { Range } from "./range.js";
import { Shell, textOf, unpackedBody } from "./shell.js";
import { Show } from "./show.js";

/**
 * @typedef {object} Kinds the views that a page has
 * @property {typeof import("./overview.js").Overview} [Overview]
 * @property {typeof import("./timeline.js").Timeline} [Timeline]
 * @property {typeof import("./flame.js").Flame} [Flame]
 * @property {typeof import("./tables.js").Tables} [Tables]
 * @property {typeof import("./roofline.js").Roofline} [Roofline]
 * @property {typeof import("./memory.js").Memory} [Memory]
 */

/** @type {[string, string][]} */
const KEYS = [
  ["w s", "zoom in and out"],
  ["a d, ← →", "to earlier and later"],
  ["↑ ↓", "scroll lanes"],
  ["wheel", "zoom; with shift to earlier and later; over names scroll lanes"],
  ["drag", "move"],
  ["shift and drag, r", "select a range: what lies in it, by name"],
  ["click", "select a node, everywhere"],
  ["double click, f", "zoom to it"],
  [", .", "the event before and after, on the same lane"],
  ["0", "the whole trace"],
  ["/", "search"],
  ["n N", "next match, the one before"],
  ["p", "zoom to the peak, in the view of memory"],
  ["1, 2, …", "views"],
  ["Esc", "select nothing, search nothing"],
];
const MOST_CALLERS = 60;
const MOST_LAUNCHED = 12;
// Events among which a search takes longer than a keystroke.
const MANY = 200_000;

/** In a worker; on this page where it may have none. @param {ReportHead} head @returns {Promise<Unpacked>} */
const eventsOf = ({ columns, lanes, call }) => {
  const packed = { planes: textOf("planes"), columns, lanes, call },
    source = textOf("worker");
  if (!source) return unpackedEvents(packed);
  return new Promise((resolve, reject) => {
    const here = () => unpackedEvents(packed).then(resolve, reject);
    try {
      const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => {
        worker.terminate();
        resolve(data);
      };
      worker.onerror = (event) => {
        event.preventDefault();
        here();
      };
      worker.postMessage(packed);
    } catch {
      here();
    }
  });
};

/** Draw a page of some views, but of empty ones, and show the first. @param {Kinds} every */
export const openReport = (every) => {
  /** @type {ReportHead} */
  const head = JSON.parse(textOf("head")),
    /** @type {Kinds} */
    kinds = Object.fromEntries(Object.entries(every).filter(([, { NAME }]) => head.views?.includes(NAME) ?? true));
  const shell = new Shell(head.heading, Object.values(kinds), KEYS);
  // Matches to go through are events; tables have a filter of their own.
  for (const id of ["before", "next"]) byId(id).hidden = !kinds.Timeline;
  byId("search").hidden = !kinds.Timeline && !kinds.Flame;
  if (kinds.Overview && head.overview) kinds.Overview.begin(shell.root(kinds.Overview), head.overview);
  shell.run(async () => {
    const [body, events] = await Promise.all([unpackedBody(), eventsOf(head)]);
    return new App(shell, head, new Trace(body, events), kinds);
  });
};

export class App extends Page {
  // The selected event or idle gap, and the match that is selected; -1 for none.
  selection = -1;
  place = -1;

  /** @param {Shell} shell @param {ReportHead} head @param {Trace} trace @param {Kinds} kinds */
  constructor(shell, head, trace, kinds) {
    super(shell);
    this.head = head;
    this.trace = trace;
    const { Overview, Timeline, Flame, Tables, Roofline, Memory } = kinds;
    if (Overview) Overview.finish(shell.root(Overview), trace);
    this.timeline = Timeline && new Timeline(this, shell.root(Timeline), trace);
    this.flame = Flame && new Flame(this, shell.root(Flame), trace);
    // A report begins with its operations; who asked for tables gets the first of them.
    this.tables = Tables && this.tablesIn(Tables, Overview ? ["ops_summary", "host_times"] : []);
    this.roofline = Roofline && new Roofline(this, shell.root(Roofline), trace);
    this.memory =
      Memory && this.timeline && new Memory(this, shell.root(Memory), trace, this.timeline, head.memory ?? []);
    const { timeline, flame, tables, roofline, memory } = this;
    this.views = { timeline, flame, tables, roofline, memory };
    this.linkViews();
    if (!hasAddress) this.followHere();
  }

  // A text in the first column is searched for, where the timeline and the flame graph show where it is.
  /** @param {typeof import("./tables.js").Tables} Tables @param {string[]} first */
  tablesIn(Tables, first) {
    return new Tables(this.shell.root(Tables), this.trace.body.tables, first, (table) =>
      this.timeline ? { ...table, click: (_, text) => this.searchExactly(text) } : table,
    );
  }

  get linked() {
    const { trace, selection: e } = this,
      of = e >= trace.first.idle ? "gap" : "uid";
    return [...super.linked, ...(e >= 0 ? [`${of}=${trace.uid[e]}`] : [])];
  }

  // Show what the address says: `#uid=…`, `#gap=…`, `#view=…`, and how views are.
  follow() {
    const { view, number, span } = this.asked,
      uid = number("uid"),
      gap = number("gap"),
      from = span("seen") ? "address" : "link";
    super.follow();
    // First the view: the link that a selection makes names the one that is shown.
    if (view) this.show(view);
    else if (uid !== null || gap !== null) this.show("timeline");
    if (gap !== null) this.select(this.trace.gapOf(gap), from);
    if (uid === null) return;
    this.selectUid(uid, from);
    if (this.shown === "flame" && this.selection >= 0) this.flame?.zoomToNode(this.selection);
  }

  // Where a link would leave for the page around, it is followed here.
  followHere() {
    addEventListener("click", (event) => {
      const link = /** @type {Element} */ (event.target).closest('a[href^="#uid="]');
      if (!link) return;
      event.preventDefault();
      this.selectUid(Number(link.getAttribute("href")?.slice("#uid=".length)), "link");
    });
  }

  /** from: what selects it. @param {number} uid @param {string} from */
  selectUid(uid, from) {
    const e = this.trace.ofUid(uid);
    if (e >= 0) this.select(e, from);
    else this.say(this.timeline ? `uid ${uid} is not drawn on this page` : `uid ${uid}`);
  }

  /** @param {number} e @param {string} from */
  select(e, from) {
    const { trace, timeline } = this;
    this.selection = e;
    if (timeline && e >= 0) {
      if (from !== "timeline") timeline.reveal(e);
      // What a link names can be seen.
      if (from === "link" && trace.dur[e] < (timeline.view.to - timeline.view.from) / 200) {
        const wide = Math.max(trace.dur[e] * 12, 1000);
        timeline.show(trace.start[e] - wide, trace.end(e) + wide);
        timeline.firstView = { ...timeline.view }; // the link says it
      }
    }
    this.details();
    timeline?.ask();
    this.memory?.draw();
    this.link();
  }

  unselect() {
    this.timeline?.selectRange(null);
    this.select(-1, "key");
  }

  details() {
    const e = this.selection,
      { trace, timeline, flame } = this,
      range = timeline?.range;
    if (e < 0 && !range) {
      this.selectedBox();
      return;
    }
    const [[, name], ...lines] = e < 0 && range ? Range.says(trace, range) : trace.says(e),
      what = el(
        "div.what",
        el("b", name),
        lines.map(([of, text]) => el("span", { class: of }, text)),
      );
    if (e < 0 && range) {
      const zoom = button("Zoom", () => timeline.show(range.from, range.to));
      this.selectedBox(what, el("div.around", "The table lists what lies in it, by name."), this.acts(zoom));
      return;
    }
    if (e >= trace.first.idle) {
      this.selectedBox(what, this.aroundGap(e), this.acts(timeline && button("Zoom", () => timeline.zoomTo(e))));
      return;
    }
    const above = trace.above(e).reverse(),
      launched = e < trace.first.gpu ? [...trace.launched(e)] : [];
    this.selectedBox(
      what,
      el(
        "div.around",
        this.callers(above),
        this.path("launches ", ", ", launched, MOST_LAUNCHED),
      ),
      this.acts(
        timeline &&
          button("Timeline", () => {
            this.go("timeline");
            timeline.reveal(e);
          }),
        timeline &&
          button("Zoom", () => {
            this.go("timeline");
            timeline.zoomTo(e);
          }),
        flame &&
          button("Flame graph", () => {
            this.go("flame");
            if (!flame.zoomToNode(e)) this.say("no frame of this node");
          }),
        button("Same name", () => this.searchExactly(trace.text(e))),
      ),
    );
  }

  // What the host did over an idle gap: the call that is most of it, the calls around that, and what ends the gap.
  /** @param {number} e */
  aroundGap(e) {
    const { trace } = this,
      { call, launch, frames } = trace.overGap(e),
      own = Show.span(trace.blamed[e - trace.first.idle]),
      end = trace.ofUid(trace.uid[e]);
    return el(
      "div.around",
      call >= 0 && el("div.path", el("b", "most of it: "), this.linkTo(call), ` ${own}`),
      call < 0 && launch >= 0 && this.path("its end was launched by ", "", [launch], 1),
      this.callers(frames),
      end >= 0 && this.path("ends with ", "", [end], 1),
    );
  }

  /** The calls around one but for those that only pass on what others do. @param {number[]} calls */
  callers(calls) {
    const shown = calls.filter((one) => !this.trace.isPlumbing(one)),
      rest = calls.length - shown.length;
    return [
      this.path("in ", " ‹ ", shown, MOST_CALLERS),
      rest > 0 && el("div.dim", `and ${Show.count(rest)} ${rest === 1 ? "frame" : "frames"} of the framework`),
    ];
  }

  /** @param {number} one */
  linkTo(one) {
    const { trace } = this;
    return el("a", { href: `#uid=${trace.uid[one]}`, title: trace.text(one) }, Show.cut(trace.short(one), 70));
  }

  // Links to nodes, one behind the other.
  /** @param {string} what @param {string} between @param {number[]} nodes @param {number} most */
  path(what, between, nodes, most) {
    if (!nodes.length) return null;
    const links = nodes.slice(0, most).map((one, k) => [k ? between : "", this.linkTo(one)]);
    return el("div.path", what, links, nodes.length > most && ` and ${Show.count(nodes.length - most)} more`);
  }

  /** @param {string} text */
  searchExactly(text) {
    this.search(Matching.plain(text));
  }

  /** @param {string} text */
  search(text) {
    this.find(text, this.trace.body.names, (lit, note) => this.found(lit, note));
  }

  // What a search found: which names, and notes on it.
  /** @param {Uint8Array | null} lit @param {string} note */
  found(lit, note) {
    const { trace } = this;
    this.matches = trace.light(lit);
    this.place = -1;
    const gpu = this.matches.reduce((ns, e) => (e >= trace.first.gpu ? ns + trace.dur[e] : ns), 0),
      count = `${Show.count(this.matches.length)} found${gpu ? `, ${Show.span(gpu)} of GPU` : ""}`;
    this.say(lit && this.timeline ? `${count}${note && `, ${note}`}` : note);
    this.timeline?.ask();
    if (this.shown === "flame") this.flame?.draw();
  }

  /** @param {number} by */
  next(by) {
    const { matches, timeline, trace } = this,
      { length } = matches;
    if (!this.isReadyFor(by) || !timeline) return;
    if (this.shown !== "timeline") this.go("timeline");
    if (this.place < 0 && by > 0) this.place = matches.findIndex((e) => trace.start[e] >= timeline.view.from) - 1;
    this.place = (this.place + by + length) % length;
    this.select(matches[this.place], "search");
    this.say(`${Show.count(this.place + 1)} of ${Show.count(length)}`);
  }

  // Among many events a search waits for the end of a word.
  get searchDelay() {
    return this.trace.n < MANY ? 0 : 200;
  }
}
