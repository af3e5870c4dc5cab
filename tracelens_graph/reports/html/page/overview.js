// @ts-check
// The first view: what the report says. It stands before the events are unpacked.
import { Bars } from "./bars.js";
import { command, el, headline, plainTable, put } from "./dom.js";
import { Show } from "./show.js";

/** @typedef {import("./events.js").Trace} Trace */

/** A link to a node. @param {number} uid @param {string} text */
const node = (uid, text) => el("a.node", { href: `#uid=${uid}` }, text);

/** What to try, and what to look at and to ask next. @param {Finding} finding */
const further = (finding) => [
  finding.try.length > 0 && el("p.try", `Try: ${finding.try.join("; ")}`),
  (finding.uid != null || finding.ask) &&
    el(
      "p.ask",
      finding.uid != null && node(finding.uid, `show uid ${finding.uid}`),
      finding.ask && command(finding.ask),
    ),
];

// What took most time, and the module or line that calls it; of memory alone, who holds it.
/** @param {ReportOverview["largest"][0]} table */
const largestOf = ({ title, time, counted, rows, notes }) => {
  const isPlaced = rows.some((row) => row.mostly_in);
  /** @param {Child} inside */
  const number = (inside) => el("td.number", inside);
  const headings = ["name", time, "%", counted, ...(isPlaced ? ["mostly in"] : []), counted === "calls" ? "longest" : "largest"];
  const made = plainTable(
    title,
    headings.map((text) => [text, !["name", "mostly in"].includes(text)]),
    rows.map((row) =>
      el(
        "tr",
        el("th", { scope: "row", title: row.name }, Show.cut(row.name, 200)),
        number(Show.number(row.ms, 3)),
        number(Show.number(row.percent, 1)),
        number(Show.count(row.count)),
        isPlaced && el("td.place", row.mostly_in),
        number(row.uid != null && node(row.uid, `uid ${row.uid}`)),
      ),
    ),
  );
  made.classList.add("largest");
  put(
    made,
    notes.map((note) => el("p.dim", note)),
  );
  return made;
};

/** @param {string} title @param {[string, string][]} facts */
const factsOf = (title, facts) =>
  el(
    "div",
    el("h3", title),
    el(
      "dl",
      facts.map(([label, value]) => [el("dt", label), el("dd", value)]),
    ),
  );

/** @param {string} title @param {ReportOverview["missing"]} missing */
const missingOf = (title, missing) =>
  el(
    "div",
    el("h3", title),
    missing.length
      ? el(
          "ul",
          missing.map(({ what, poorer, how }) =>
            el("li", el("b", what), `: ${poorer}. `, el("span.dim", `Record with: ${how}`)),
          ),
        )
      : el("p.dim", "Nothing that this page lacks."),
  );

export const Overview = {
  NAME: "overview",
  TITLE: "Overview",

  /** What stands before anything is unpacked. @param {HTMLElement} root @param {ReportOverview} head */
  begin(root, head) {
    const [first, ...causes] = head.findings;
    put(
      root,
      head.window &&
        el(
          "p.window",
          el("b", `Only ${head.window}.`),
          " Figures, views and tables are of this part of the trace, except where they say that they are of the whole.",
        ),
      head.damage && el("p.warning", `The file is damaged: ${head.damage}`),
      first && el("div.headline", headline(first.text), further(first)),
      causes.length > 0 &&
        el(
          "ol.causes",
          causes.map((one) => el("li", { class: one.severity }, el("p.text", one.text), further(one))),
        ),
      Bars.share(`Where ${head.base} went`, head.parts),
      head.memory.length > 0 &&
        el(
          "p.peak",
          el("b", "Peak of memory: "),
          `${head.memory.join("; ")} `,
          el("a", { href: "#view=memory" }, "show memory"),
        ),
      head.largest.map(largestOf),
      head.steps.length > 0 && Bars.rows("Steps on the device", head.steps),
      el(
        "div.pair",
        el(
          "div",
          head.window && factsOf(`In this part: ${head.window}`, head.of_window),
          factsOf(head.window ? "The whole trace" : "What was recorded", head.facts),
          head.options.length > 0 && factsOf("Options of the report", head.options),
        ),
        missingOf(head.window ? "Not recorded, of the whole trace" : "Not recorded", head.missing),
      ),
      head.absent && el("p.dim", head.absent),
      el("p.dim.unpacking", "Unpacking the events…"),
    );
  },

  /** What is said once it is. @param {HTMLElement} root @param {Trace} trace */
  finish(root, { body: { drawn } }) {
    const { events, instants } = drawn,
      left = Object.entries(drawn.left_out).map(([what, count]) => `${Show.count(count)} × ${what}`),
      changes = instants === 1 ? "allocation or release" : "allocations and releases";
    const says = [
      `Drawn: ${Show.count(events)} events of host and GPU${instants ? `, ${Show.count(instants)} ${changes}` : ""}.`,
      ...(left.length ? [`Not drawn: ${left.join("; ")}.`] : []),
    ];
    for (const place of root.querySelectorAll(".unpacking")) place.textContent = says.join(" ");
  },
};
