// @ts-check
// What the timeline draws: tracks of its lanes, labels, the axis, the selection and arrows from launches to their work.
const Drawing = {
  all(t) {
    const { pixels, palette, context, ratio, canvas } = t;
    const scale = t.scale;
    // Starts of the view that are whole pixels: else colours flicker while it moves.
    const from = Math.round(t.view.from / scale) * scale;
    pixels.fill(palette.empty);
    const labels = [];
    for (const region of t.lanes.regions) {
      const top = Math.round(region.y * ratio),
        bottom = Math.round((region.y + region.height) * ratio);
      for (const lane of region.lanes) {
        for (let level = 0; level < lane.deep; level++) {
          const y = t.lanes.topOf(region, lane) + level * lane.row;
          if (y + lane.row <= region.y || y >= region.y + region.height) continue;
          const own = lane.row === Lanes.ROW ? [] : null;
          const line = t.painter.track(lane.track + level, from, scale, own, Timeline.LABEL * ratio);
          const low = Math.max(top, Math.round(y * ratio));
          const high = Math.min(bottom, Math.round((y + lane.row) * ratio) - (lane.row > 4 ? 1 : 0));
          for (let row = low; row < high; row++) pixels.set(line, row * canvas.width);
          if (own && y >= region.y - 1 && y + lane.row <= region.y + region.height + 1) {
            for (const [e, x, width] of own) labels.push([e, x, y, width]);
          }
        }
      }
    }
    context.putImageData(t.image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    Drawing.labels(t, labels);
    Drawing.axis(t);
    for (const region of t.lanes.regions) {
      context.fillStyle = palette.lineCss;
      if (region.height) context.fillRect(0, region.y - 0.5, t.width, 1);
    }
    context.fillRect(0, t.lanes.bottom - 1, t.width, 1);
    Drawing.arrows(t);
    Drawing.outline(t, t.app.selection, palette.textCss, 2);
    const span = t.view.to - t.view.from,
      all = t.trace.high - t.trace.low;
    t.status.textContent = `${Show.span(span)} in view${span < all ? ` of ${Show.span(all)}` : ""}`;
  },

  labels(t, labels) {
    const { context, ratio, palette, trace } = t;
    context.font = "11px ui-monospace, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    const wide = (t.letter ||= context.measureText("0".repeat(50)).width / 50);
    for (const [e, x, y, width] of labels) {
      const text = Show.label(trace.short(e), Math.floor((width / ratio - 6) / wide));
      const isLit = !trace.lit || e >= trace.first.idle || trace.lit[trace.name[e]];
      context.fillStyle = isLit ? palette.ink[trace.color(e)] : palette.dimCss;
      if (text) context.fillText(text, x / ratio + 3, y + Lanes.ROW / 2);
    }
  },

  axis(t) {
    const { context, palette, width } = t,
      { from, to } = t.view;
    context.fillStyle = palette.backCss;
    context.fillRect(0, 0, width, Timeline.AXIS);
    const span = to - from,
      lead = t.trace.body.lead_ns;
    const rough = span / Math.max(width / 110, 1),
      power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough) || 10 * power;
    const [unit, size] =
      Show.UNITS.find(([, one]) => span + lead >= 0 && one <= Math.max(step * 10, 1)) || Show.UNITS[3];
    const digits = Math.max(0, Math.round(-Math.log10(step / size) + 0.49));
    // Deep in a long trace numbers are told from a whole millisecond or second that stands at the left.
    const whole = size < 1e9 && Math.abs(from + lead) > 1e3 * size ? 1e3 * size : 0;
    const base = whole ? Math.floor((from + lead) / whole) * whole : 0;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const left = whole ? `${Show.moment(base)} +` : "";
    const reserved = left ? context.measureText(left).width + 16 : 0;
    for (let at = Math.ceil((from + lead) / step) * step; at < to + lead; at += step) {
      const x = t.x(at - lead);
      context.fillStyle = palette.lineCss;
      context.fillRect(x, Timeline.AXIS - 6, 1, 6);
      const label = `${Show.number((at - base) / size + 0, digits)} ${unit}`;
      context.fillStyle = palette.dimCss;
      if (x > reserved && x + context.measureText(label).width + 4 < width) context.fillText(label, x + 3, 10);
    }
    if (left) {
      context.fillStyle = palette.textCss;
      context.fillText(left, 4, 10);
    }
  },

  outline(t, e, color, size) {
    const place = e >= 0 && t.lanes.placeOf(e);
    if (!place) return;
    const { context } = t,
      { region, lane, y } = place;
    context.save();
    context.beginPath();
    context.rect(0, region.y, t.width, region.height);
    context.clip();
    context.strokeStyle = color;
    context.lineWidth = size;
    const x = Math.max(-4, t.x(t.trace.start[e])),
      right = Math.min(t.width + 4, t.x(t.trace.end(e)));
    context.strokeRect(x, y, Math.max(right - x, 2), Math.max(lane.row - 1, 3));
    context.restore();
  },

  // From the launches below the selection to their GPU events.
  arrows(t) {
    const { trace, context, palette } = t,
      e = t.app.selection;
    if (e < 0 || e >= trace.first.idle) return;
    const work =
      e >= trace.first.gpu ? (trace.parent[e] >= 0 ? [e] : []) : [...(trace.launched(e).subarray?.(0, 200) ?? [])];
    context.strokeStyle = palette.accentCss;
    context.lineWidth = 1.2;
    for (const k of work) {
      const from = t.lanes.placeOf(trace.parent[k]),
        to = t.lanes.placeOf(k);
      if (!from || !to) continue;
      const x = t.x(trace.start[trace.parent[k]]),
        y = Math.max(from.region.y, Math.min(from.y + from.lane.row, from.region.y + from.region.height));
      const right = t.x(trace.start[k]),
        below = Math.max(to.region.y, Math.min(to.y, to.region.y + to.region.height));
      if (Math.max(x, right) < 0 || Math.min(x, right) > t.width) continue;
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo(x, (y + below) / 2, right, (y + below) / 2, right, below - 4);
      context.stroke();
      context.beginPath();
      context.moveTo(right - 3, below - 5);
      context.lineTo(right, below);
      context.lineTo(right + 3, below - 5);
      context.stroke();
    }
  },
};
