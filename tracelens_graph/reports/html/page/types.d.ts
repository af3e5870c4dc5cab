// What pages hold: the data that Python packs into them, and the interfaces between their scripts.
// Only `tsc` reads this; no page has it.

// ---- elements --------------------------------------------------------------------------------------------------------

type Child = Node | string | number | null | undefined | false | Child[];

interface Props {
  class?: string | null;
  // Name of a colour.
  fill?: string | null;
  onclick?(event: MouseEvent): unknown;
  oninput?(event: Event): unknown;
  onchange?(event: Event): unknown;
  onscroll?(event: Event): unknown;
  onkeydown?(event: KeyboardEvent): unknown;
  onpointermove?(event: PointerEvent): unknown;
  onpointerleave?(event: PointerEvent): unknown;
  [name: string]: unknown;
}

// Lines that hovering shows, each with its class.
type Lines = [string, string][];

// ---- views and pages -------------------------------------------------------------------------------------------------

interface Tab {
  NAME: string;
  TITLE: string;
  // What the view is for those who do not see it; its title where it is left out.
  LABEL?: string;
}

interface View {
  grid?: import("./grid.js").Grid;
  // It is shown, or the window or the selection is another.
  shown?(): void;
  // Light or dark.
  recolor?(): void;
  // There is no next frame before it is printed.
  print?(): void;
  // Whether it knows a key.
  key?(key: string): boolean;
  // How it is, for an address, by names; nothing of what is as at first.
  readonly address?: Record<string, string>;
  // Be as an address says.
  restore?(asked: Asked): void;
  // Called when its address is another.
  changed?(): void;
}

interface Asked {
  view: string | null;
  text(name: string): string | null;
  number(name: string): number | null;
  span(name: string): Span | null;
}

interface Span {
  from: number;
  to: number;
}

// ---- numbers and tables ----------------------------------------------------------------------------------------------

type Numbers = Int32Array | Float64Array;
type Columns = Record<string, Numbers>;

interface Described {
  name: string;
  n: number;
  planes: number;
  delta: boolean;
}

type Cell = string | number | boolean | null;

interface GridColumn {
  name?: string;
  heading: string;
  unit?: string | null;
  about?: string;
  kind: "text" | "number" | "uid" | "id" | "flag";
  cells: ArrayLike<Cell>;
  // Cells of texts are places in these.
  texts?: string[];
  // Of categories the class of each, by its cell: its colour.
  classes?: Record<string, string>;
  digits?: number;
  shown?: boolean;
  isShown?: boolean;
  // How a number is written.
  number?(value: number, digits: number): string;
}

interface GridContent {
  columns: GridColumn[];
  rows: number;
  notes?: string[];
  // A click on the first cell of a row.
  click?(row: number, text: string): void;
  isMarked?(row: number): boolean;
}

interface TableData extends GridContent {
  name: string;
  title: string;
}

interface TablesBody {
  tables: TableData[];
  texts: string[];
}

// What a time is made of.
interface Part {
  label: string;
  class: string;
  ns: number;
}

interface BarRow {
  name: string;
  uid?: number | null;
  parts: Part[];
  says?: string;
}

// ---- the page of a report --------------------------------------------------------------------------------------------

interface LaneTitle {
  title: string;
  n: number;
  launches?: number;
}

type LaneTitles = Record<"host" | "note" | "gpu" | "idle", LaneTitle[]>;

interface Lane {
  title: string;
  name: string;
  group: "host" | "call" | "note" | "gpu" | "idle" | "counter";
  n: number;
  launches: number;
  // Events of the thread.
  thread: number;
  // Tracks of the lane: `track` to `track + deep - 1`.
  track: number;
  deep: number;
}

interface Events {
  n: number;
  first: Record<"host" | "note" | "gpu" | "idle", number>;
  start: Float64Array;
  dur: Float64Array;
  uid: Float64Array;
  name: Int32Array;
  parent: Int32Array;
  level: Int32Array;
  lane: Int32Array;
  args: Numbers;
  depth: Int32Array;
  // Of idle gaps one more than the number of the call that is most of one, 0 for none; its ns; ns of other causes.
  culprit: Numbers;
  blamed: Numbers;
  rest: Numbers;
  lanes: Lane[];
  low: number;
  high: number;
}

// The tracks, each item an event; or, where the level has cells, all short events that start in one.
interface Level {
  cell: number;
  isEvent: boolean;
  from: Int32Array;
  event: Int32Array;
  start: Float64Array;
  end: Float64Array;
  sum: Float64Array;
}

interface Unpacked {
  events: Events;
  levels: Level[];
  columns: Columns;
}

interface Packed {
  planes: string;
  columns: Described[];
  lanes: LaneTitles;
  call: number;
}

interface Cause {
  name: string;
  meaning: string;
  class: string;
}

interface Finding {
  severity: string;
  text: string;
  uid: number | null;
  try: string[];
  ask: string;
}

interface Largest {
  name: string;
  mostly_in: string;
  ms: number;
  percent: number;
  count: number;
  uid: number | null;
}

interface ReportOverview {
  heading: string;
  window: string;
  damage: string;
  findings: Finding[];
  base: string;
  parts: Part[];
  memory: string[];
  // What took most time: operations on the GPU, or what the host did.
  largest: { title: string; time: string; counted: string; rows: Largest[]; notes: string[] }[];
  steps: BarRow[];
  facts: [string, string][];
  of_window: [string, string][];
  options: [string, string][];
  missing: { what: string; poorer: string; how: string }[];
  // Why there is no roofline.
  absent: string;
}

interface MemoryTitle {
  title: string;
  n: number;
  all: number;
  reserved: boolean;
}

interface ReportHead {
  heading: string;
  // Views that hold something; all where it is left out.
  views?: string[];
  overview?: ReportOverview;
  columns: Described[];
  lanes: LaneTitles;
  call: number;
  memory?: MemoryTitle[];
}

interface RooflinePoint {
  name: number;
  category: number;
  shapes: number;
  types: number;
  x: number;
  y: number;
  us: number;
  percent: number;
  calls: number;
  roof: number | null;
  won_us: number | null;
  bound: string;
  uid: number;
  class: string;
}

interface RooflineData {
  device: string;
  bandwidth: number | null;
  roofs: { label: string; tflops: number; ridge: number }[];
  points: RooflinePoint[];
  more: number;
  unplaced: number;
  // Why there are no points.
  why: string;
}

interface ReportBody extends TablesBody {
  causes: Cause[];
  arguments: string[];
  flame: { views: Record<string, string>; measures: Record<string, string>; steps: string[] };
  roofline: RooflineData;
  drawn: { events: number; instants: number; left_out: Record<string, number> };
  lead_ns: number;
  // From which length on the queue of each stream is full, and what copies move bytes: `HtoD`. Not where events are missing.
  counters?: { full: Record<string, number>; ways: string[] };
  // Start and end of what the timeline shows at first, ns; null for all of the trace.
  seen_first: [number, number] | null;
  classes: string[];
  // Class of GPU work -> the categories that it stands for.
  categories: Record<string, string>;
  names: string[];
  shorts: (string | null)[];
}

// ---- the page of a comparison ----------------------------------------------------------------------------------------

type Pair = [number, number];

interface DiffReason {
  reason: string;
  meaning: string;
  places: number;
  a_ms: number;
  b_ms: number;
  slower_ms: number;
  faster_ms: number;
  first: number;
}

interface DiffOverviewHead {
  headline: string;
  notes: string[];
  sides: { letter: string; name: string; text: string; parts: Part[] }[];
  totals: { meaning: string; a_ms: number; b_ms: number; change_ms: number; change_percent: number | null }[];
  reasons: DiffReason[];
  idle: { part: string; cause: string; a_ms: number; b_ms: number; change_ms: number; why: string }[];
  facts: [string, string | null, string | null][];
}

interface DiffHead {
  title: string;
  columns: Described[];
  overview: DiffOverviewHead;
}

interface PlaceSide {
  line: string | null;
  shapes: string | null;
  types: string | null;
  uid: number | null;
  kernels: [number, number, number][];
  more: number;
}

interface Place {
  place: number;
  op: string;
  module: string;
  reason: string;
  meaning: string;
  why: string;
  times: number;
  ns: Pair;
  sides: [PlaceSide, PlaceSide];
  drawn: string[];
  commands: [string, string][];
}

interface DiffBody extends TablesBody {
  names: string[];
  shorts: (string | null)[];
  places: Place[];
}

// ---- the page of a job -----------------------------------------------------------------------------------------------

interface RankTime {
  time: string;
  meaning: string;
  mean_ms: number | null;
  percent: number | null;
  most_ms: number | null;
  least_ms: number | null;
  most_trace: string;
  least_trace: string;
}

// Name of a worker, its slowdown, whether it accounts for most of that of the job.
type SlowdownCell = [string, number, boolean];

interface SlowdownMap {
  caption: string;
  columns: string[];
  rows: { name: string; cells: (SlowdownCell | null)[] }[];
  notes: string[];
}

interface RanksOverviewHead {
  head: string;
  headline: string;
  late: string[];
  late_rank: number;
  reasons: string[][];
  commands: string[];
  notes: string[];
  ranks: string[];
  balance: (number | null)[][];
  balance_keys: string[];
  times: RankTime[];
  // Whether a collective has a known bandwidth: without one, that view is left out. Whether a link is slow.
  has_bandwidths: boolean;
  has_slow_links: boolean;
  slowdown: SlowdownMap | null;
}

interface RanksHead {
  title: string;
  columns: Described[];
  overview: RanksOverviewHead;
}

type Matrix = (number | null)[][];

interface WaitsData {
  rows: number[];
  steps: string[];
  is_whole: boolean;
  wait_ms: Matrix;
  step_ms: Matrix;
  held_up_ms: Matrix;
  all_held_up_ms: number[];
  late: number[];
  notes: string[];
}

type Point = (number | null)[];

interface BandwidthsData {
  keys: string[];
  kinds: { kind: string; points: Point[]; links: number[]; slow: number[] }[];
  peaks: number[];
  device: string | null;
  notes: string[];
  // Row, column, size, messages, GB/s, times slower than others, slow or not.
  pairs: { ranks: number[]; cells: [number, number, number, number, number | null, number | null, number][]; notes: string[] };
}

interface StepData {
  step: number | null;
  is_median: boolean;
  ns: number;
  lanes: number[];
  begins: number[][];
  kinds: number[];
  groups: number[];
  sequences: (number | null)[];
  late: [number, number][];
  notes: string[];
}

interface RanksBody extends TablesBody {
  waits: WaitsData;
  bandwidths: BandwidthsData;
  step: StepData;
}

// ---- others ----------------------------------------------------------------------------------------------------------

interface Window {
  tracelensGraph: unknown;
}

interface Uint8ArrayConstructor {
  fromBase64?(text: string): Uint8Array<ArrayBuffer>;
}

declare const uPlot: any;
