// @ts-check
// Bars of parts, {label, class, ns} each: what a time is made of.
const Bars = {
  total: (parts) => parts.reduce((sum, part) => sum + part.ns, 0),

  share(title, parts) {
    const whole = Bars.total(parts);
    if (!whole) return null;
    return el(
      "figure",
      { class: "share" },
      el("figcaption", {}, `${title}: ${Show.span(whole)}`),
      Bars.stack(parts, whole),
      Bars.legend(parts, (part) => [
        el("b", {}, Show.percent(part.ns, whole)),
        el("span", { class: "dim" }, ` ${Show.span(part.ns)}`),
      ]),
    );
  },

  // says(part): what stands behind its label.
  legend(parts, says) {
    return el(
      "ul",
      { class: "legend" },
      ...parts.map((part) =>
        el("li", { class: "key" }, el("i", { class: `swatch c-${part.class}` }), `${part.label} `, ...says(part)),
      ),
    );
  },

  stack(parts, whole) {
    const made = svg("svg", {
      class: "stack",
      viewBox: "0 0 1000 26",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": parts.map((part) => `${part.label} ${Show.percent(part.ns, whole)}`).join(", "),
    });
    let x = 0;
    for (const part of parts) {
      const width = (1000 * part.ns) / whole;
      made.append(
        svg("rect", {
          x,
          y: 0,
          width,
          height: 26,
          class: `c-${part.class}`,
          onpointermove: (event) =>
            Tip.at(event, [
              ["name", part.label],
              ["", `${Show.span(part.ns)}, ${Show.percent(part.ns, whole)}`],
            ]),
          onpointerleave: () => Tip.hide(),
        }),
      );
      x += width;
    }
    return made;
  },

  // rows: {name, uid, parts, says}, all drawn to one scale; what they say stands behind the time.
  rows(caption, rows, ...below) {
    const most = Math.max(...rows.map((row) => Bars.total(row.parts)), 1);
    return el(
      "figure",
      { class: "steps" },
      el("figcaption", {}, caption),
      ...rows.map((row) => {
        const whole = Bars.total(row.parts);
        const bar = el("div", { class: "track" }, Bars.stack(row.parts, whole || 1));
        bar.firstChild.style.width = `${(100 * whole) / most}%`;
        return el(
          "div",
          { class: "step" },
          row.uid == null ? el("span", { title: row.name }, row.name) : el("a", { href: `#uid=${row.uid}` }, row.name),
          bar,
          el("span", { class: "number" }, Show.span(whole)),
          row.says ? el("span", { class: "dim said" }, row.says) : null,
        );
      }),
      ...below,
    );
  },
};
