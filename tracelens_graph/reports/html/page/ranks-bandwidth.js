// @ts-check
// Bus bandwidth against the size of the message, one mark per collective; and from rank to rank.
import { Tip, el, put, svg } from "./dom.js";
import { Grid, gridOf } from "./grid.js";
import { Plot } from "./plot.js";
import { RankPairs } from "./ranks-pairs.js";
import { Show } from "./show.js";

/** @typedef {import("./page-ranks.js").RanksPage} RanksPage */
/** @typedef {{ kind: string, link: string, isSlow: boolean, place: number, of(key: string): number | null }} Mark */

const COLORS = 7;
const UNITS = ["B", "KB", "MB", "GB", "TB"];
// By which factor the axes go beyond marks and peaks.
const MARGIN = 2;

// A mark whose shape and colour stand for a kind of collectives.
/** @param {number} place @param {number} x @param {number} y @param {Props} [more] */
const markOf = (place, x, y, more = {}) => {
  const props = { ...more, class: "point", fill: `kind-${place % COLORS}` };
  switch (Math.floor(place / COLORS) % 3) {
    case 0:
      return svg("circle", { cx: x, cy: y, r: 4.5, ...props });
    case 1:
      return svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, ...props });
    default:
      return svg("path", { d: `M${x} ${y - 5.5}L${x + 5.5} ${y}L${x} ${y + 5.5}L${x - 5.5} ${y}Z`, ...props });
  }
};

export class RanksBandwidth {
  static NAME = "bandwidth";
  static TITLE = "Bandwidth";
  static LABEL = "Bandwidth by size";

  /** A size in powers of 1,000, three digits of it, as the tables have it. @param {number} value */
  static bytes(value) {
    let at = 0;
    for (; value >= 999.5 && at < UNITS.length - 1; at++) value /= 1000;
    return `${value.toLocaleString("en-US", { maximumSignificantDigits: 3 })} ${UNITS[at]}`;
  }

  /** @param {RanksPage} app @param {HTMLElement} root @param {BandwidthsData} data @param {string[]} texts */
  constructor(app, root, data, texts) {
    this.app = app;
    /** @type {Mark[]} */
    this.points = data.kinds.flatMap(({ kind, points, links, slow }, place) =>
      points.map((point, k) => {
        const link = texts[links[k]];
        return { kind, link, isSlow: slow[k] === 1, place, of: (key) => point[data.keys.indexOf(key)] };
      }),
    );
    /** @type {SVGElement[]} */
    this.marks = [];
    const list = el("div.twin");
    put(
      root,
      el(
        "div.bar",
        el("b", "Bus bandwidth by size of the message"),
        el(
          "span.dim",
          "One mark per collective, ringed on a slow link. Waiting does not count: the time is that of the rank that " +
            "comes last.",
        ),
      ),
      RanksBandwidth.legend(data),
      this.picture(data),
      data.notes.map((note) => el("p.dim", note)),
    );
    if (data.pairs.cells.length) new RankPairs(data.pairs, app.ranks, RanksBandwidth.bytes).into(root);
    put(root, list);
    this.grid = new Grid(
      list,
      "Collectives with known size and bandwidth",
      gridOf(
        this.points,
        [
          ["kind", "text", ({ kind }) => kind],
          ["link", "text", ({ link }) => link],
          ["collective", "id", ({ of }) => of("collective")],
          ["step", "id", ({ of }) => of("step")],
          ["ranks", "number", ({ of }) => of("ranks"), "", 0],
          ["bytes", "number", ({ of }) => of("message_bytes"), "", 0],
          ["latency", "number", ({ of }) => of("latency_us"), "us", 3],
          ["bus bandwidth", "number", ({ of }) => of("busbw_gb_s"), "GB/s", 3],
          ["of the links", "number", ({ of }) => of("percent_of_peak"), "%", 1],
          ["times slower than others", "number", ({ of }) => of("times_slower"), "", 2],
        ],
        { click: (row) => this.select(this.points[row]), isMarked: (row) => this.isChosen(this.points[row]) },
      ),
    );
  }

  /** @param {Mark} mark */
  select({ of }) {
    this.app.selectCollective(of("collective") ?? -1);
  }

  /** @param {Mark} mark */
  isChosen({ of }) {
    return of("collective") === this.app.collective;
  }

  /** @param {BandwidthsData} data */
  static legend({ kinds }) {
    return el(
      "ul.legend",
      kinds.map(({ kind, points }, place) => {
        const mark = svg("svg", { class: "mark", viewBox: "-6 -6 12 12", "aria-hidden": "true" }, markOf(place, 0, 0));
        return el("li.key", mark, `${kind} (${Show.count(points.length)})`);
      }),
    );
  }

  /** @param {BandwidthsData} data */
  picture({ peaks, device }) {
    /** @param {string} key */
    const values = (key) => this.points.map(({ of }) => of(key) ?? NaN);
    const plot = new Plot(
        "Bus bandwidth by size of the message",
        { left: 74, top: 14, right: 16, bottom: 44, width: 1200, height: 470 },
        values("message_bytes"),
        [...values("busbw_gb_s"), ...peaks],
        MARGIN,
      ),
      { left, right, top, bottom } = plot.edges;
    plot.grid(RanksBandwidth.bytes, (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 3 }), true);
    plot.below("size of the message");
    plot.text("bus bandwidth, GB/s", 0, 0, {
      transform: `translate(16 ${(top + bottom) / 2}) rotate(-90)`,
      "text-anchor": "middle",
    });
    for (const peak of peaks) {
      const says = `links${device ? ` of ${device}` : ""}: ${Show.number(peak, 0)} GB/s`;
      plot.line("roof", left, plot.y(peak), right, plot.y(peak));
      plot.text(says, right - 4, plot.y(peak) - 6, { "text-anchor": "end", class: "label" });
    }
    const [x, y] = [values("message_bytes"), values("busbw_gb_s")];
    this.marks = this.points.map((mark, k) =>
      markOf(mark.place, plot.x(x[k]), plot.y(y[k]), {
        ...Tip.of(() => this.says(mark)),
        onclick: () => this.select(mark),
      }),
    );
    this.marks.forEach((mark, k) => mark.classList.toggle("slow", this.points[k].isSlow));
    put(plot.svg, this.marks);
    return plot.box;
  }

  /** @param {Mark} mark @returns {Lines} */
  says({ kind, link, isSlow, of }) {
    const slower = of("times_slower"),
      share = of("percent_of_peak"),
      step = of("step");
    /** @param {string} key @param {number} digits */
    const number = (key, digits) => Show.number(of(key) ?? NaN, digits);
    return [
      ["name", `${kind}, ${link || `${number("ranks", 0)} ranks`}`],
      ["", `${RanksBandwidth.bytes(of("message_bytes") ?? NaN)} in ${number("latency_us", 1)} µs`],
      [
        "",
        `${number("busbw_gb_s", 3)} GB/s on the bus${share == null ? "" : `, ${Show.number(share, 1)} % of the links`}`,
      ],
      ["", slower == null ? "" : `${number("times_slower", 2)} times as long as on others${isSlow ? ": slow" : ""}`],
      ["dim", `collective ${of("collective")}${step == null ? "" : `, step ${step}`}`],
    ];
  }

  shown() {
    this.marks.forEach((mark, k) => mark.classList.toggle("chosen", this.isChosen(this.points[k])));
    this.grid.fill(true);
  }
}
