// @ts-check
// What the timeline draws: events as lines of pixels, one per track; labels, the axis, the selection and arrows.
import { clipped, cssColor } from "./canvas.js";
import { Lanes } from "./lanes.js";
import { Show } from "./show.js";

/** @typedef {import("./canvas.js").Palette} Palette */
/** @typedef {import("./events.js").Trace} Trace */
/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {import("./timeline.js").Sheet} Sheet */
// An event that is wide enough for a label, where it begins and its width in pixels.
/** @typedef {[number, number, number]} Labelled */

// Height of the axis, and width of what is beside the lanes.
export const AXIS = 24;
export const GUTTER = 168;
// Pixels from which on an event has a label.
const LABEL = 34;
const MOST_ARROWS = 200;
// Pixels over which lanes fade where more of them are below.
const FADE = 22;
const FAINT = 0.16;
const LEAST = 0.4;
// Short gaps one beside the other look like what they are: little of the time.
const LEAST_IDLE = 0.1;

// First item of a track that may reach into the view.
/** @param {Level} level @param {number} track @param {number} from */
export const firstIn = (level, track, from) => {
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
};

// The line of pixels of a track, which is copied down the height of its row.
export class Painter {
  /** @param {Trace} trace @param {Palette} palette @param {number} width */
  constructor(trace, palette, width) {
    this.trace = trace;
    this.palette = palette;
    this.width = width;
    this.line = new Uint32Array(width);
    this.cover = new Float64Array(width);
    this.longest = new Float64Array(width);
    this.color = new Int16Array(width);
    this.bright = new Uint8Array(width);
    this.empty = this.pixel(0, 0);
  }

  /** A colour as a pixel, from none of it (0) to all of it (1). @param {number} color @param {number} share */
  pixel(color, share) {
    const [r, g, b] = this.palette.colors[color],
      [x, y, z] = this.palette.back;
    /** @param {number} a @param {number} c */
    const mix = (a, c) => (c + (a - c) * share) | 0;
    return (255 << 24) | (mix(b, z) << 16) | (mix(g, y) << 8) | mix(r, x);
  }

  /** @param {number} scale */
  level(scale) {
    const { levels } = this.trace;
    return levels.findLast((level) => level.cell && level.cell <= scale) ?? levels[0];
  }

  /** @param {number} track @param {number} from @param {number} scale @param {Labelled[] | null} labels @param {number} least */
  track(track, from, scale, labels, least) {
    const { line, cover, longest, color, bright, width, trace } = this;
    const level = this.level(scale),
      to = from + width * scale,
      faintest = level.event[level.from[track]] >= trace.first.idle ? LEAST_IDLE : LEAST;
    line.fill(this.empty);
    cover.fill(0);
    longest.fill(-1);
    bright.fill(0);
    let first = width,
      last = -1;
    for (let i = firstIn(level, track, from), end = level.from[track + 1]; i < end; i++) {
      const begin = level.start[i];
      if (begin >= to) break;
      const e = level.event[i],
        stop = level.end[i];
      const x = (begin - from) / scale,
        right = (stop - from) / scale,
        size = right - x;
      const isLit = trace.isLit(e);
      if (size >= 1) {
        const low = Math.max(0, Math.round(x)),
          high = Math.min(width, Math.max(Math.round(right), Math.round(x) + 1));
        const part = level.isEvent ? 1 : Math.max(faintest, Math.min(1, level.sum[i] / (stop - begin))),
          share = isLit ? part : FAINT;
        line.fill(this.pixel(trace.color(e), share), low, high);
        if (size > 4 && low > 0) line[low] = this.pixel(trace.color(e), 0.55 * share);
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
      line[at] = this.pixel(color[at], bright[at] ? share : FAINT);
    }
    return line;
  }
}

// The axis of a view of time.
/**
 * @param {CanvasRenderingContext2D} context
 * @param {Palette} palette
 * @param {number} width
 * @param {number} lead time from the zero of Perfetto UI to that of the view
 * @param {{ view: Span, x(ns: number): number }} time
 */
export const drawAxis = (context, palette, width, lead, time) => {
  const { from, to } = time.view;
  context.fillStyle = palette.backCss;
  context.fillRect(0, 0, width, AXIS);
  const span = to - from,
    step = Show.step(span / Math.max(width / 110, 1));
  const [unit, size] = Show.unit((one) => span + lead >= 0 && one <= Math.max(step * 10, 1));
  const digits = Math.max(0, Math.round(-Math.log10(step / size) + 0.49));
  // Deep in a long trace numbers count from a whole millisecond or second that stands at the left.
  const whole = size < 1e9 && Math.abs(from + lead) > 1e3 * size ? 1e3 * size : 0;
  const base = whole ? Math.floor((from + lead) / whole) * whole : 0;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const left = whole ? `${Show.moment(base)} +` : "";
  const reserved = left ? context.measureText(left).width + 16 : 0;
  for (let at = Math.ceil((from + lead) / step) * step; at < to + lead; at += step) {
    const x = time.x(at - lead);
    context.fillStyle = palette.lineCss;
    context.fillRect(x, AXIS - 6, 1, 6);
    const label = `${Show.number((at - base) / size + 0, digits)} ${unit}`;
    context.fillStyle = palette.dimCss;
    if (x > reserved && x + context.measureText(label).width + 4 < width) context.fillText(label, x + 3, 10);
  }
  if (left) {
    context.fillStyle = palette.textCss;
    context.fillText(left, 4, 10);
  }
};

/** All that is on the canvas of the timeline. @param {Timeline} t @param {Sheet} sheet */
export const drawTimeline = (t, sheet) => {
  const { context, palette, ratio } = sheet,
    { regions, bottom } = t.lanes;
  const labels = paint(t, sheet);
  context.putImageData(sheet.image, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  write(t, sheet, labels);
  drawCounters(t, sheet);
  drawAxis(context, palette, t.width, t.trace.body.lead_ns, t);
  context.fillStyle = palette.lineCss;
  for (const { y, height } of regions) if (height) context.fillRect(0, y - 0.5, t.width, 1);
  context.fillRect(0, bottom - 1, t.width, 1);
  for (const { y, height, scroll, total } of regions) {
    if (scroll + height >= total - 1) continue;
    const faded = context.createLinearGradient(0, y + height - FADE, 0, y + height); // more lanes are below
    faded.addColorStop(0, `${palette.backCss}00`);
    faded.addColorStop(1, palette.backCss);
    context.fillStyle = faded;
    context.fillRect(0, y + height - FADE, t.width, FADE - 1);
  }
  arrows(t, sheet);
  band(t, sheet);
  outline(t, sheet);
};

/** Over all lanes: the range, or the idle gap that is selected. @param {Timeline} t @param {Sheet} sheet */
const band = (t, { context, palette }) => {
  const { app, range, trace, lanes } = t,
    e = app.selection,
    gap = e >= trace.first.idle ? { from: trace.start[e], to: trace.end(e) } : null;
  for (const span of [range, gap]) {
    if (!span) continue;
    const x = Math.max(t.x(span.from), 0),
      width = Math.max(Math.min(t.x(span.to), t.width) - x, 1);
    if (x > t.width || t.x(span.to) < 0) continue;
    context.fillStyle = palette.accentCss;
    context.globalAlpha = 0.12;
    context.fillRect(x, 0, width, lanes.bottom);
    context.globalAlpha = 0.8;
    for (const edge of [x, x + width]) context.fillRect(edge - 0.5, 0, 1, lanes.bottom);
    context.globalAlpha = 1;
  }
};

// The pixels of all tracks in sight: what is wide enough for a label, and the top of its row.
/** @param {Timeline} t @param {Sheet} sheet @returns {[...Labelled, number][]} */
const paint = (t, { pixels, painter, ratio }) => {
  const { scale } = t,
    { width } = t.canvas;
  // Starts of the view that are whole pixels: else colours flicker while it moves.
  const from = Math.round(t.view.from / scale) * scale;
  pixels.fill(painter.empty);
  /** @type {[...Labelled, number][]} */
  const labels = [];
  for (const region of t.lanes.regions) {
    const top = Math.round(region.y * ratio),
      end = region.y + region.height,
      bottom = Math.round(end * ratio);
    for (const lane of region.lanes) {
      if (lane.counter) continue;
      for (let level = 0; level < lane.deep; level++) {
        const y = region.topOf(lane) + level * lane.row;
        if (y + lane.row <= region.y || y >= end) continue;
        /** @type {Labelled[] | null} */
        const own = lane.row === Lanes.ROW ? [] : null;
        const line = painter.track(lane.track + level, from, scale, own, LABEL * ratio);
        const low = Math.max(top, Math.round(y * ratio)),
          high = Math.min(bottom, Math.round((y + lane.row) * ratio) - (lane.row > 4 ? 1 : 0));
        for (let row = low; row < high; row++) pixels.set(line, row * width);
        if (own && y >= region.y - 1 && y + lane.row <= end + 1) for (const one of own) labels.push([...one, y]);
      }
    }
  }
  return labels;
};

// Counters as areas over their lanes: of each pixel the greatest level, and in another colour where it is full.
/** @param {Timeline} t @param {Sheet} sheet */
const drawCounters = (t, { context, palette }) => {
  const region = t.lanes.counters,
    scale = (t.view.to - t.view.from) / t.width;
  clipped(context, [0, region.y, t.width, region.height], () => {
    context.font = "10px system-ui, sans-serif";
    for (const lane of region.lanes) {
      const { counter, height } = lane,
        top = region.topOf(lane);
      if (!counter || top > region.y + region.height || top + height < region.y) continue;
      const fills = [cssColor(counter.color), cssColor("backward")];
      let i = counter.place(t.view.from);
      for (let x = 0; x < t.width; x++) {
        const next = counter.place(t.view.from + (x + 1) * scale),
          most = counter.greatest(i, next);
        i = next;
        if (most <= 0) continue;
        const high = Math.max((most / counter.most) * (height - 2), 1);
        context.fillStyle = fills[Number(most >= counter.full)];
        context.fillRect(x, top + height - high, 1, high);
      }
      context.fillStyle = palette.lineCss;
      context.fillRect(0, top + height, t.width, 1);
      const text = counter.says(counter.most),
        wide = context.measureText(text).width + 8;
      context.fillStyle = palette.backCss;
      context.globalAlpha = 0.8;
      context.fillRect(0, top, wide, 12);
      context.globalAlpha = 1;
      context.fillStyle = palette.dimCss;
      context.fillText(text, 4, top + 6);
    }
  });
};

/** @param {Timeline} t @param {Sheet} sheet @param {[...Labelled, number][]} labels */
const write = ({ trace }, { context, palette, ratio }, labels) => {
  context.font = "11px ui-monospace, Menlo, Consolas, monospace";
  context.textBaseline = "middle";
  const wide = context.measureText("0".repeat(50)).width / 50;
  for (const [e, x, width, y] of labels) {
    const text = Show.label(trace.short(e), Math.floor((width / ratio - 6) / wide));
    context.fillStyle = trace.isLit(e) ? palette.ink[trace.color(e)] : palette.dimCss;
    if (text) context.fillText(text, x / ratio + 3, y + Lanes.ROW / 2);
  }
};

/** Around the selection. @param {Timeline} t @param {Sheet} sheet */
const outline = (t, { context, palette }) => {
  const e = t.app.selection,
    place = e >= 0 && t.lanes.placeOf(e);
  if (!place) return;
  const { region, lane, y } = place,
    x = Math.max(-4, t.x(t.trace.start[e])),
    right = Math.min(t.width + 4, t.x(t.trace.end(e)));
  clipped(context, [0, region.y, t.width, region.height], () => {
    context.strokeStyle = palette.textCss;
    context.lineWidth = 2;
    context.strokeRect(x, y, Math.max(right - x, 2), Math.max(lane.row - 1, 3));
  });
};

/** From the launches below the selection to their GPU events. @param {Timeline} t @param {Sheet} sheet */
const arrows = (t, { context, palette }) => {
  const { trace, lanes } = t,
    e = t.app.selection;
  if (e < 0 || e >= trace.first.idle) return;
  context.strokeStyle = palette.accentCss;
  context.lineWidth = 1.2;
  for (const k of e >= trace.first.gpu ? [e] : trace.launched(e).subarray(0, MOST_ARROWS)) {
    const launch = trace.parent[k],
      from = launch < 0 ? null : lanes.placeOf(launch),
      to = lanes.placeOf(k);
    if (!from || !to) continue;
    const x = t.x(trace.start[launch]),
      right = t.x(trace.start[k]),
      y = within(from.region, from.y + from.lane.row),
      below = within(to.region, to.y);
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
};

/** @param {{ y: number, height: number }} region @param {number} y */
const within = (region, y) => Math.max(region.y, Math.min(y, region.y + region.height));
