// @ts-check
// Bars of parts: what a time is made of.
import { Tip, el, filled, svg } from "./dom.js";
import { Show } from "./show.js";

export const Bars = {
  /** @param {Part[]} parts */
  total: (parts) => parts.reduce((sum, part) => sum + part.ns, 0),

  /** @param {string} title @param {Part[]} parts */
  share(title, parts) {
    const whole = Bars.total(parts);
    if (!whole) return null;
    return el(
      "figure.share",
      el("figcaption", `${title}: ${Show.span(whole)}`),
      Bars.stack(parts, whole),
      Bars.legend(parts, (part) => [el("b", Show.percent(part.ns, whole)), el("span.dim", ` ${Show.span(part.ns)}`)]),
    );
  },

  // says: what stands behind the label of a part.
  /** @template {{ label: string, class: string }} One @param {One[]} parts @param {(part: One) => Child} [says] */
  legend: (parts, says = () => null) =>
    el(
      "ul.legend",
      parts.map((part) => el("li.key", el("i.swatch", { fill: part.class }), `${part.label} `, says(part))),
    ),

  /** @param {Part[]} parts @param {number} whole */
  stack(parts, whole) {
    let x = 0;
    return svg(
      "svg",
      {
        class: "stack",
        viewBox: "0 0 1000 26",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": parts.map((part) => `${part.label} ${Show.percent(part.ns, whole)}`).join(", "),
      },
      parts.map((part) => {
        const width = (1000 * part.ns) / whole,
          says = `${Show.span(part.ns)}, ${Show.percent(part.ns, whole)}`;
        x += width;
        return svg("rect", {
          x: x - width,
          y: 0,
          width,
          height: 26,
          fill: part.class,
          ...Tip.of(() => [
            ["name", part.label],
            ["", says],
          ]),
        });
      }),
    );
  },

  /** A bar that is as long as its time, of the most beside it. @param {Part[]} parts @param {number} most */
  track(parts, most) {
    const whole = Bars.total(parts),
      bar = Bars.stack(parts, whole || 1);
    bar.style.width = `${(100 * whole) / most}%`;
    return el("div.track", bar);
  },

  // All drawn to one scale; what a row says stands behind its time.
  /** @param {string} caption @param {BarRow[]} rows @param {Child[]} below */
  rows(caption, rows, ...below) {
    const most = Math.max(...rows.map((row) => Bars.total(row.parts)), 1);
    return el(
      "figure.steps",
      el("figcaption", caption),
      rows.map(({ name, uid, parts, says }) =>
        el(
          "div.row",
          uid == null ? el("span", { title: name }, name) : el("a", { href: `#uid=${uid}` }, name),
          Bars.track(parts, most),
          el("span.number", Show.span(Bars.total(parts))),
          says ? el("span.dim.said", says) : null,
        ),
      ),
      below,
    );
  },

  /** A bar of a share, beside a figure. @param {number} share @param {string} of */
  part: (share, of) => el("div.share-bar", { "aria-hidden": "true" }, filled(share, { class: of })),
};
