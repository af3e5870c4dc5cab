// @ts-check
// Bandwidth from rank to rank as a map of colours: who sends downwards, who receives across.
import { Tip, el, put, svg } from "./dom.js";
import { Show } from "./show.js";

/** @typedef {BandwidthsData["pairs"]["cells"][number]} Pair */

const CELL = { least: 9, most: 30, all: 620 };
const LEFT = 120;
const TOP = 58;
const SHADES = 5;

export class RankPairs {
  /** @param {BandwidthsData["pairs"]} data @param {string[]} names @param {(value: number) => string} bytes */
  constructor({ ranks, cells, notes }, names, bytes) {
    this.labels = ranks.map((rank) => names[rank]);
    this.bytes = bytes;
    this.most = Math.max(...cells.map(([, , , , rate]) => rate ?? 0), 0);
    const side = Math.max(CELL.least, Math.min(CELL.most, Math.floor(CELL.all / ranks.length))),
      size = side * ranks.length,
      every = Math.ceil(14 / side),
      shown = this.labels.map((label, at) => /** @type {const} */ ([label, at])).filter(([, at]) => at % every === 0);
    this.parts = [
      el(
        "div.bar",
        el("b", "Bandwidth from rank to rank"),
        el("span.dim", "Who sends downwards, who receives across; framed: slower than others of equal kind and size."),
        el(
          "span.scale",
          "0",
          el("i.heat", { role: "img", "aria-label": "From no bandwidth, pale, to the most, dark" }),
          `${Show.number(this.most, 3)} GB/s`,
        ),
      ),
      el(
        "div.pairs",
        svg(
          "svg",
          {
            width: LEFT + size + 60,
            height: TOP + size + 8,
            role: "group",
            "aria-label": "Bandwidth from rank to rank. The table rank_links says the same.",
          },
          shown.map(([label, at]) =>
            svg("text", { x: LEFT - 6, y: TOP + (at + 0.5) * side + 4, "text-anchor": "end" }, label.slice(0, 16)),
          ),
          shown.map(([label, at]) => {
            const x = LEFT + (at + 0.5) * side + 4;
            return svg("text", { x, y: TOP - 6, transform: `rotate(-45 ${x} ${TOP - 6})` }, label.slice(0, 9));
          }),
          cells.map((pair) => {
            const [row, column, , , rate, , slow] = pair,
              shade = Math.round((SHADES - 1) * Math.sqrt(this.most ? (rate ?? 0) / this.most : 0));
            return svg("rect", {
              x: LEFT + column * side,
              y: TOP + row * side,
              width: side - 1,
              height: side - 1,
              fill: `heat-${shade}`,
              class: slow ? "slow" : "",
              ...Tip.of(() => this.says(pair)),
            });
          }),
        ),
      ),
      notes.map((note) => el("p.dim", note)),
    ];
  }

  /** @param {Pair} pair @returns {Lines} */
  says([row, column, size, count, rate, slower, slow]) {
    const others = slower == null ? "nothing of its kind and size to compare with" : "";
    return [
      ["name", `${this.labels[row]} to ${this.labels[column]}`],
      ["", `${Show.count(count)} messages of ${this.bytes(size)}: ${Show.number(rate ?? NaN, 3)} GB/s`],
      ["", others || `${Show.number(slower ?? NaN, 2)} times as long as on others${slow ? ": slow" : ""}`],
    ];
  }

  /** @param {HTMLElement} root */
  into(root) {
    put(root, this.parts);
  }
}
