// What scripts of pages hold that their own text does not say: fields that are set by name, and what a page must have.
// Only `tsc` reads this; no page has it.
type Events = ReturnType<typeof Levels.events>;

interface Trace extends Events {
  first: Record<"host" | "note" | "gpu" | "idle" | "end", number>;
}

interface DiffData {
  body: any;
  columns: Record<string, Int32Array | Float64Array>;
}

// What each page adds to the views that it begins with.
interface Views {
  trace: any;
  matches: any[];
  readonly linked: string[];
  readonly grids: (Grid | undefined)[];
  load(): Promise<void>;
  shownNow(name: string): void;
  follow(): void;
  search(text: string): void;
  next(by: number): void;
  unselect(): void;
  recolor(): void;
  viewKey(key: string): boolean;
}

interface App {
  overview?: Overview;
  timeline: Timeline;
  flame: Flame;
  tables: Tables;
  memory: Memory;
}

interface DiffPage {
  overview: DiffOverview;
  flame: DiffFlame;
  places: DiffPlaces;
  tables: DiffTables;
}

interface RanksPage {
  overview: RanksOverview;
  waits: RanksWaits;
  step: RanksStep;
  bandwidth: RanksBandwidth;
  collectives: RanksCollectives;
  tables: RanksTables;
}

interface Palette {
  textCss: string;
  dimCss: string;
  lineCss: string;
  backCss: string;
  accentCss: string;
}

interface Painter {
  trace: Trace;
  palette: Palette;
  width: number;
}

interface Memory {
  each: number;
}

interface RankCanvas {
  height(): number;
  paint(context: CanvasRenderingContext2D, width: number, height: number): void;
}

interface RanksStep {
  step: any;
  trace: any;
}

interface Flame {
  views: HTMLSelectElement;
  step: HTMLSelectElement;
}

interface Grid {
  isPrinted?: boolean;
}

interface Timeline {
  grid?: Grid;
}

interface Window {
  tracelensGraph: Views;
}

interface Uint8ArrayConstructor {
  fromBase64?(text: string): Uint8Array<ArrayBuffer>;
}

declare const uPlot: any;
