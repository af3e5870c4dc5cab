// @ts-check
// The first view of a job: what a step is made of, which rank holds up the others, and why.
import { Bars } from "./bars.js";
import { command, el, plainTable, put, headline } from "./dom.js";
import { slowdownMap } from "./ranks-slowdown.js";
import { Show } from "./show.js";

const MOST_RANKS = 64;

/** @type {[string, string, string][]} */
const PARTS = [
  ["waits for other ranks", "waiting", "wait_ms"],
  ["communicates", "moving", "transfer_ms"],
  ["stays longer than the first", "skew", "end_skew_ms"],
];

/** @param {number | null} value */
const number = (value, digits = 3) => el("td.number", value != null && Show.number(value, digits));

/** @param {RankTime[]} times */
const timesOf = (times) => {
  const most = Math.max(...times.map((row) => row.mean_ms ?? 0)) || 1;
  return plainTable(
    "Of a step on a rank: computing, exposed, copying and idle are the whole of it",
    ["", "mean ms", "%", "", "most ms", "on", "least ms", "on"].map((text, k) => [text, [1, 2, 4, 6].includes(k)]),
    times.map((row) =>
      el(
        "tr",
        { title: row.meaning },
        el("th", { scope: "row" }, row.time),
        number(row.mean_ms),
        number(row.percent, 1),
        el("td", Bars.part((row.mean_ms ?? 0) / most, row.time.includes("wait") ? "waiting" : "")),
        number(row.most_ms),
        el("td.short", row.most_trace),
        number(row.least_ms),
        el("td.short", row.least_trace),
      ),
    ),
  );
};

// Each rank's collectives to one scale, and how long it held up the others; of many ranks those that did most.
/** @param {RanksOverviewHead} head */
const balanceOf = ({ balance, balance_keys: keys, ranks }) => {
  const [late, ...parts] = ["held_up_ms", ...PARTS.map(([, , key]) => key)].map((key) => keys.indexOf(key));
  const rows = balance.map((row, rank) => ({
    rank,
    held: row[late] ?? 0,
    parts: PARTS.map(([label, of], k) => ({ label, class: of, ns: Math.round((row[parts[k]] ?? 0) * 1e6) })),
  }));
  const shown = [...rows]
    .sort((a, b) => b.held - a.held || a.rank - b.rank)
    .slice(0, MOST_RANKS)
    .sort((a, b) => a.rank - b.rank);
  const most = Math.max(...shown.map((row) => Bars.total(row.parts)), 1),
    // What is little beside the time in collectives looks like it.
    held = Math.max(...shown.map((row) => row.held), most / 1e6);
  return el(
    "figure",
    el("figcaption", "Ranks: time in collectives, and how long each holds up the others"),
    el(
      "div.balance",
      ["", "in collectives", "ms", "holds the others up", "ms"].map((text) => el("span.dim", text)),
      shown.map((row) => [
        el("a", { href: `#view=waits&rank=${row.rank}` }, ranks[row.rank]),
        Bars.track(row.parts, most),
        el("span.number", Show.number(Bars.total(row.parts) / 1e6, 3)),
        Bars.part(row.held / held, "late"),
        el("span.number", Show.number(row.held, 3)),
      ]),
    ),
    Bars.legend(rows[0].parts),
    rows.length > shown.length &&
      el(
        "p.dim",
        `${Show.count(shown.length)} of ${Show.count(rows.length)} ranks: those that hold up the others most. All are in the table rank_balance.`,
      ),
  );
};

export const RanksOverview = {
  NAME: "overview",
  TITLE: "Overview",

  /** All of it stands before anything is unpacked. @param {HTMLElement} root @param {RanksOverviewHead} head */
  begin(root, head) {
    const { late_rank: late, ranks, commands, has_bandwidths: isDrawn, has_slow_links: isSlow } = head;
    put(
      root,
      el(
        "div.headline",
        headline(head.headline),
        el("p.dim", head.head),
        head.late.map((line) => el("p.late", line)),
        // Slow links, the rank that the others wait for, and what to ask next.
        (isSlow || late >= 0 || commands.length > 0) &&
          el(
            "p.ask",
            isSlow && isDrawn && el("a.node", { href: "#view=bandwidth" }, "show the slow links"),
            late >= 0 && el("a.node", { href: `#view=waits&rank=${late}` }, `show ${ranks[late]}, and why it is late`),
            commands.map(command),
          ),
      ),
      head.times.length > 0 && timesOf(head.times),
      head.slowdown && slowdownMap(head.slowdown),
      head.balance.length > 0 && balanceOf(head),
      head.notes.length > 0 &&
        el(
          "div.notes",
          head.notes.map((note) => el("p", note)),
        ),
    );
  },
};
