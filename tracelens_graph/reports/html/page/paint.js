// @ts-check
// Colours, and the lines of pixels that events are drawn as: one line per track, copied down the height of its row.
class Palette {
  constructor(classes, causes) {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => Palette.rgb(style.getPropertyValue(`--${name}`).trim() || "#888888");
    this.colors = [...classes, ...causes.map((cause) => `idle-${cause.class}`)].map(read);
    this.css = this.colors.map(([r, g, b]) => `rgb(${r},${g},${b})`);
    this.ink = this.colors.map(([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 120 ? "#000" : "#fff"));
    this.back = read("back");
    for (const name of ["text", "dim", "line", "back", "accent"])
      this[`${name}Css`] = style.getPropertyValue(`--${name}`).trim();
  }

  static rgb(text) {
    const value = parseInt(text.slice(1), 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
  }

  // A colour as a pixel, from none of it (0) to all of it (1).
  pixel(color, share) {
    const [r, g, b] = this.colors[color],
      [x, y, z] = this.back;
    const mix = (a, c) => (c + (a - c) * share) | 0;
    return (255 << 24) | (mix(b, z) << 16) | (mix(g, y) << 8) | mix(r, x);
  }

  get empty() {
    const [r, g, b] = this.back;
    return (255 << 24) | (b << 16) | (g << 8) | r;
  }
}

class Painter {
  static FAINT = 0.16;
  static LEAST = 0.4;
  // Short gaps one beside the other look like what they are: little of the time.
  static LEAST_IDLE = 0.1;

  constructor(trace, palette, width) {
    Object.assign(this, { trace, palette, width });
    this.line = new Uint32Array(width);
    this.cover = new Float64Array(width);
    this.longest = new Float64Array(width);
    this.color = new Int16Array(width);
    this.bright = new Uint8Array(width);
  }

  level(scale) {
    let found = this.trace.levels[0];
    for (const level of this.trace.levels) if (level.cell && level.cell <= scale) found = level;
    return found;
  }

  // First item of a track that may reach into the view.
  static firstIn(level, track, from) {
    let low = level.from[track],
      high = level.from[track + 1];
    const begin = low;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (level.end[middle] <= from) low = middle + 1;
      else high = middle;
    }
    while (low > begin && level.end[low - 1] > from) low--;
    return low;
  }

  // The pixels of a track; what is wide enough for a label goes to `labels` as [event, x, width].
  track(track, from, scale, labels, least) {
    const { line, cover, longest, color, bright, width, palette, trace } = this;
    const level = this.level(scale),
      to = from + width * scale,
      lit = trace.lit,
      idle = trace.first.idle;
    const faintest = level.event[level.from[track]] >= idle ? Painter.LEAST_IDLE : Painter.LEAST;
    line.fill(palette.empty);
    cover.fill(0);
    longest.fill(-1);
    bright.fill(0);
    let first = width,
      last = -1;
    for (let i = Painter.firstIn(level, track, from), end = level.from[track + 1]; i < end; i++) {
      const begin = level.start[i];
      if (begin >= to) break;
      const e = level.event[i],
        stop = level.end[i];
      const x = (begin - from) / scale,
        right = (stop - from) / scale,
        size = right - x;
      const isLit = !lit || e >= idle || lit[trace.name[e]];
      if (size >= 1) {
        const low = Math.max(0, Math.round(x)),
          high = Math.min(width, Math.max(Math.round(right), Math.round(x) + 1));
        const share = level.isEvent ? 1 : Math.max(faintest, Math.min(1, level.sum[i] / (stop - begin)));
        line.fill(palette.pixel(trace.color(e), isLit ? share : Painter.FAINT), low, high);
        if (size > 4 && low > 0) line[low] = palette.pixel(trace.color(e), 0.55 * (isLit ? share : Painter.FAINT));
        if (labels && high - low > least) labels.push([e, low, high - low]);
      } else {
        const at = Math.floor(x);
        if (at < 0 || at >= width) continue;
        if (first > at) first = at;
        if (at > last) last = at;
        cover[at] += (level.isEvent ? stop - begin : level.sum[i]) / scale;
        if (isLit) bright[at] = 1;
        if (stop - begin >= longest[at]) {
          longest[at] = stop - begin;
          color[at] = trace.color(e);
        }
      }
    }
    for (let at = first; at <= last; at++) {
      if (longest[at] < 0) continue;
      const share = Math.max(faintest, Math.min(1, cover[at]));
      line[at] = palette.pixel(color[at], bright[at] ? share : Painter.FAINT);
    }
    return line;
  }
}
