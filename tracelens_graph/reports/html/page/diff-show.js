// @ts-check
// Times of two sides, as texts and bars.
import { button, copyText, el, filled } from "./dom.js";
import { Show } from "./show.js";

/** @param {number} value */
const signOf = (value) => (value > 0 ? "+" : value < 0 ? "−" : "±");

export const DiffShow = {
  /** @param {number} value @param {number} digits */
  signed: (value, digits) => signOf(value) + Show.number(Math.abs(value), digits),

  /** @param {number} ms */
  ms: (ms) => Show.number(ms, 3),

  /** @param {number} ms */
  changeMs: (ms) => DiffShow.signed(ms, 3),

  /** @param {Pair} ns */
  change: ([a, b]) => `${DiffShow.changeMs((b - a) / 1e6)} ms`,

  /** Times of both sides in one unit, so that they can be held against each other. @param {Pair} ns */
  times: ([a, b]) => `${DiffShow.ms(a / 1e6)} -> ${DiffShow.ms(b / 1e6)} ms`,

  /** @param {Pair} ns */
  both(ns) {
    const [a, b] = ns,
      percent = a ? ` (${b >= a ? "+" : "−"}${Math.abs((100 * (b - a)) / a).toFixed(1)} %)` : "";
    return `${DiffShow.times(ns)}: ${DiffShow.change(ns)}${percent}`;
  },

  // Bars to the left for what became less, to the right for more, of the most that is drawn.
  /** @param {number} less @param {number} more @param {number} most @param {Props} [props] */
  bar(less, more, most, props = { "aria-hidden": "true" }) {
    /** @param {string} of @param {number} value */
    const part = (of, value) => value > 0 && filled(value / most / 2, { class: of });
    return el("div.change", props, part("less", less), part("more", more));
  },

  /** How a place is called. @param {{ op: string, times: number }} place */
  op: ({ op, times }) => `${op}${times > 1 ? ` × ${Show.count(times)}` : ""}`,

  /** @param {Place} place */
  title: (place) => `${place.place}. ${DiffShow.op(place)}`,

  /** @param {[string, string]} command */
  command: ([label, text]) =>
    el(
      "p.command",
      el("span.dim", `${label}: `),
      el("code", text),
      button("Copy", (event) => copyText(text, event.currentTarget), { "aria-label": `Copy: ${text}` }),
    ),
};
