// @ts-check
// A canvas as wide as what it is in, with a gutter for the names of ranks.
import { cssColor, fit } from "./canvas.js";
import { el } from "./dom.js";
import { Show } from "./show.js";

export class RankCanvas {
  static GUTTER = 150;

  width = 0;

  /** @param {string} label @param {number} height @param {(context: CanvasRenderingContext2D, width: number) => void} paint */
  constructor(label, height, paint) {
    this.height = height;
    this.paint = paint;
    this.canvas = el("canvas", {
      tabIndex: 0,
      role: "img",
      "aria-label": `${label}. The table below it says the same.`,
    });
    this.box = el("div.rank-canvas", this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width) return;
    this.width = width;
    const context = fit(this.canvas, width, this.height);
    context.fillStyle = cssColor("back");
    context.fillRect(0, 0, width, this.height);
    context.font = "11.5px system-ui, sans-serif";
    this.paint(context, width);
  }

  /** @param {CanvasRenderingContext2D} context @param {string} text @param {number} y @param {boolean} isChosen */
  static label(context, text, y, isChosen) {
    context.fillStyle = cssColor(isChosen ? "accent" : "text");
    context.textAlign = "right";
    context.fillText(Show.cut(text, 22), RankCanvas.GUTTER - 8, y);
    context.textAlign = "left";
  }

  /** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} size */
  static diamond(context, x, y, size) {
    context.beginPath();
    context.moveTo(x, y - size);
    context.lineTo(x + size, y);
    context.lineTo(x, y + size);
    context.lineTo(x - size, y);
    context.closePath();
    context.fillStyle = cssColor("late");
    context.fill();
    context.strokeStyle = cssColor("back");
    context.lineWidth = 1;
    context.stroke();
  }
}
