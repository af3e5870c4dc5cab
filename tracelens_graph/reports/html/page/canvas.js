// @ts-check
// Canvases, the colours of the page on them, and views of time that keys, the wheel and dragging move.
import { Tip } from "./dom.js";

// A colour as red, green and blue.
/** @typedef {[number, number, number]} Rgb */

/** @param {string} name */
export const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** @param {string} name @returns {Rgb} */
export const rgbOf = (name) => {
  const value = parseInt((cssColor(name) || "#888888").slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
};

/** A colour between two, from the first (0) to the second (1). @param {Rgb} a @param {Rgb} b @param {number} share */
export const mixed = (a, b, share) =>
  /** @type {Rgb} */ (a.map((value, k) => Math.round(value + (b[k] - value) * share)));

/** What is read on a colour. @param {Rgb} color @param {number} [limit] */
export const inkOn = ([r, g, b], limit = 120) => (0.299 * r + 0.587 * g + 0.114 * b > limit ? "#000" : "#fff");

// The colours of names, and of what is around.
export class Palette {
  /** @param {string[]} names */
  constructor(names) {
    this.colors = names.map(rgbOf);
    this.css = this.colors.map((color) => `rgb(${color})`);
    this.ink = this.colors.map((color) => inkOn(color));
    this.back = rgbOf("back");
    this.textCss = cssColor("text");
    this.dimCss = cssColor("dim");
    this.lineCss = cssColor("line");
    this.backCss = cssColor("back");
    this.accentCss = cssColor("accent");
  }
}

// Give a canvas a size in pixels of the page: what to draw with. Nothing is seen through it.
/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export const fit = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1,
    context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textBaseline = "middle";
  return context;
};

// Draw within a box only.
/** @param {CanvasRenderingContext2D} context @param {[number, number, number, number]} box @param {() => void} draw */
export const clipped = (context, box, draw) => {
  context.save();
  context.beginPath();
  context.rect(...box);
  context.clip();
  draw();
  context.restore();
};

/**
 * @typedef {object} Acts what an element does that is pointed at, at a place within it
 * @property {(x: number, y: number) => Lines | null} hover what it says; null for nothing
 * @property {(x: number, y: number) => void} click
 */

/** @param {HTMLElement} element @param {PointerEvent} event @param {Acts} acts */
const hover = (element, event, acts) => {
  const says = acts.hover(event.offsetX, event.offsetY);
  element.classList.toggle("over", !!says);
  if (says) Tip.at(event, says);
  else Tip.hide();
};

/** @param {HTMLElement} element @param {Acts} acts */
export const pointed = (element, acts) => {
  element.addEventListener("pointermove", (event) => hover(element, event, acts));
  element.addEventListener("pointerleave", Tip.hide);
  element.addEventListener("click", (event) => acts.click(event.offsetX, event.offsetY));
};

// A view of a span of time. Pixels count from the left edge of an element, in which time begins at `left`.
export class TimeView {
  left = 0;
  width = 0;
  // Whether dragging selects a range without shift, too.
  isRanging = false;
  /** @type {number | null} */
  mouse = null;

  /** @param {Span} view which changes as it is moved */
  constructor(view) {
    this.view = view;
  }

  /** @param {number} _from @param {number} _to */
  show(_from, _to) {}

  /** Where a moment is, in pixels, and the other way round. @param {number} ns */
  x(ns) {
    const { from, to } = this.view;
    return this.left + ((ns - from) / (to - from)) * this.width;
  }

  /** @param {number} x */
  time(x) {
    const { from, to } = this.view;
    return from + ((x - this.left) / this.width) * (to - from);
  }

  /** By a factor, around a place. @param {number} factor @param {number} x */
  zoom(factor, x) {
    const { from, to } = this.view,
      at = this.time(x);
    this.show(at - (at - from) * factor, at + (to - at) * factor);
  }

  /** By a share of what is seen. @param {number} share */
  pan(share) {
    const { from, to } = this.view,
      by = share * (to - from);
    this.show(from + by, to + by);
  }

  /** What keys do: zoom around the pointer, and move. @returns {Record<string, () => void>} */
  get keys() {
    const middle = Math.max(this.mouse ?? this.left + this.width / 2, this.left);
    return {
      w: () => this.zoom(0.7, middle),
      s: () => this.zoom(1 / 0.7, middle),
      a: () => this.pan(-0.15),
      d: () => this.pan(0.15),
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
    };
  }

  /** @param {string} key */
  key(key) {
    const act = this.keys[key];
    act?.();
    return !!act;
  }

  // The wheel zooms around the pointer, and moves with shift or sideways; dragging moves, or with shift selects a range;
  // what is not dragged is clicked.
  /**
   * @param {HTMLElement} element
   * @param {Acts & { drag?(by: number, y: number): void, select?(range: Span, isDone: boolean): void }} acts
   */
  listen(element, acts) {
    /** @typedef {Span & { x: number, y: number, top: number, begin: number, isRange: boolean, isMoved: boolean }} Drag */
    /** @type {Drag | null} */
    let drag = null;
    /** @param {Drag} one @param {number} x @param {boolean} isDone */
    const select = ({ begin }, x, isDone) => {
      const end = this.time(Math.min(Math.max(x, this.left), this.left + this.width));
      acts.select?.({ from: Math.round(Math.min(begin, end)), to: Math.round(Math.max(begin, end)) }, isDone);
    };
    element.addEventListener(
      "wheel",
      (event) => {
        if (event.offsetX < this.left) return;
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.pan((event.deltaX || event.deltaY) / this.width);
        else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.offsetX);
      },
      { passive: false },
    );
    element.addEventListener("pointerdown", (event) => {
      const { clientX: x, clientY: y, offsetY: top } = event,
        isRange = !!acts.select && (this.isRanging || event.shiftKey);
      drag = { ...this.view, x, y, top, begin: this.time(event.offsetX), isRange, isMoved: false };
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      this.mouse = event.offsetX;
      if (!drag) {
        hover(element, event, acts);
        return;
      }
      const across = event.clientX - drag.x,
        down = event.clientY - drag.y;
      if (!drag.isMoved && Math.abs(across) + (acts.drag ? Math.abs(down) : 0) < 4) return;
      const by = (across * (drag.to - drag.from)) / this.width;
      drag.isMoved = true;
      Tip.hide();
      if (drag.isRange) {
        select(drag, event.offsetX, false);
        return;
      }
      this.show(drag.from - by, drag.to - by);
      acts.drag?.(-down, drag.top);
      drag.y = event.clientY;
    });
    element.addEventListener("pointerup", (event) => {
      if (drag && !drag.isMoved) acts.click(event.offsetX, event.offsetY);
      else if (drag?.isRange) select(drag, event.offsetX, true);
      drag = null;
    });
    element.addEventListener("pointerleave", Tip.hide);
  }
}
