// @ts-check
// A canvas as wide as what it is in, with a gutter for the names of ranks, and a scale of colours from none to most.
class RankCanvas {
  static GUTTER = 150;
  static FONT = "11.5px system-ui, sans-serif";

  // draw(context, width): draws, and gives the height; act(event, x, y): what is told of a point, null for nothing.
  constructor(label, { height, draw, hover, click }) {
    Object.assign(this, { height, paint: draw });
    this.canvas = el("canvas", {
      tabIndex: 0,
      role: "img",
      "aria-label": `${label}. The table below it says the same.`,
    });
    this.box = el("div", { class: "rank-canvas" }, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => {
      const said = event.buttons ? null : hover(event.offsetX, event.offsetY);
      this.canvas.classList.toggle("over", !!said);
      if (said) Tip.at(event, said);
      else Tip.hide();
    });
    this.canvas.addEventListener("pointerleave", () => Tip.hide());
    this.canvas.addEventListener("click", (event) => click(event.offsetX, event.offsetY));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1,
      height = this.height();
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.width = width;
    const context = this.canvas.getContext("2d", { alpha: false });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = RankCanvas.color("back");
    context.fillRect(0, 0, width, height);
    context.font = RankCanvas.FONT;
    context.textBaseline = "middle";
    this.paint(context, width, height);
  }

  static color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  static label(context, text, y, isChosen) {
    context.fillStyle = RankCanvas.color(isChosen ? "accent" : "text");
    context.textAlign = "right";
    context.fillText(Show.cut(text, 22), RankCanvas.GUTTER - 8, y);
    context.textAlign = "left";
  }

  static diamond(context, x, y, size = 5) {
    context.beginPath();
    context.moveTo(x, y - size);
    context.lineTo(x + size, y);
    context.lineTo(x, y + size);
    context.lineTo(x - size, y);
    context.closePath();
    context.fillStyle = RankCanvas.color("late");
    context.fill();
    context.strokeStyle = RankCanvas.color("back");
    context.lineWidth = 1;
    context.stroke();
  }

  // Round marks of an axis from 0 to `most`, about so many.
  static marks(from, to, about) {
    const rough = (to - from) / Math.max(about, 1),
      power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough) || power;
    const found = [];
    for (let at = Math.ceil(from / step) * step; at <= to + step / 1e6; at += step)
      found.push(Number(at.toPrecision(12)));
    return found;
  }
}

// A table with rows in columns, for the grid: [heading, unit, kind, digits, value(row)].
const twinOf = (rows, columns) => ({
  columns: columns.map(([heading, unit, kind, digits, value]) => ({
    heading,
    unit,
    kind,
    digits,
    cells: rows.map(value),
  })),
  rows: rows.length,
  notes: [],
});
