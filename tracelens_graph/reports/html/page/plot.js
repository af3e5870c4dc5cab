// @ts-check
// A picture with two axes that grow by powers of ten: points with what they say, below roofs.
import { el, svg } from "./dom.js";
import { Show } from "./show.js";

/**
 * @typedef {object} Frame
 * @property {number} width
 * @property {number} height
 * @property {number} left
 * @property {number} right
 * @property {number} top
 * @property {number} bottom
 */

export class Plot {
  // margin: by which factor the axes go beyond what is drawn.
  /** @param {string} label @param {Frame} frame @param {number[]} xs @param {number[]} ys @param {number} margin */
  constructor(label, frame, xs, ys, margin) {
    const { width, height, left, right, top, bottom } = frame;
    /** @param {number[]} values @returns {Pair} */
    const ends = (values) => [Math.log10(Math.min(...values) / margin), Math.log10(Math.max(...values) * margin)];
    this.across = ends(xs);
    this.up = ends(ys);
    // The edges of what is drawn on.
    this.edges = { left, top, right: width - right, bottom: height - bottom };
    this.svg = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": `${label}. The table below it says the same.`,
    });
    this.box = el("div.picture", this.svg);
  }

  /** @param {number} value */
  x(value) {
    const { left, right } = this.edges,
      [low, high] = this.across;
    return left + ((Math.log10(value) - low) / (high - low)) * (right - left);
  }

  /** @param {number} value */
  y(value) {
    const { top, bottom } = this.edges,
      [low, high] = this.up;
    return bottom - ((Math.log10(value) - low) / (high - low)) * (bottom - top);
  }

  /** @param {string} words @param {number} x @param {number} y @param {Props} [props] */
  text(words, x, y, props = {}) {
    this.svg.append(svg("text", { x, y, ...props }, words));
  }

  /** @param {string} of @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 */
  line(of, x1, y1, x2, y2) {
    this.svg.append(svg("line", { x1, y1, x2, y2, class: of }));
  }

  // Lines with their values, at powers of ten; of few decades at the doubles and fives between them, too, if wanted.
  /** @param {(value: number) => string} atX @param {(value: number) => string} atY @param {boolean} isFine */
  grid(atX, atY, isFine = false) {
    const { left, top, right, bottom } = this.edges;
    for (const value of Plot.marks(this.across, isFine)) {
      this.line("grid", this.x(value), top, this.x(value), bottom);
      this.text(atX(value), this.x(value), bottom + 18, { "text-anchor": "middle" });
    }
    for (const value of Plot.marks(this.up, isFine)) {
      this.line("grid", left, this.y(value), right, this.y(value));
      this.text(atY(value), left - 8, this.y(value) + 4, { "text-anchor": "end" });
    }
  }

  /** @param {Pair} ends @param {boolean} isFine */
  static marks([from, to], isFine) {
    const found = [];
    for (let power = Math.floor(from); power <= to; power++)
      for (const k of isFine && to - from <= 2.5 ? [1, 2, 5] : [1]) found.push(k * 10 ** power);
    return found.filter((one) => Math.log10(one) >= from && Math.log10(one) <= to);
  }

  /** @param {string} words */
  below(words) {
    const { left, right, bottom } = this.edges;
    this.text(words, (left + right) / 2, bottom + 38, { "text-anchor": "middle" });
  }

  /** 10 to the power of k, in few letters. @param {number} value */
  static power(value) {
    const k = Math.round(Math.log10(value));
    if (Math.abs(k) < 4) return k < 0 ? String(10 ** k) : Show.count(10 ** k);
    return `10${[...String(k)].map((digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]).join("")}`;
  }
}
