// @ts-check
// A report with memory over time.
import { openReport } from "./app.js";
import { Flame } from "./flame.js";
import { Memory } from "./memory.js";
import { Overview } from "./overview.js";
import { Roofline } from "./roofline.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";

openReport({ Overview, Timeline, Flame, Tables, Roofline, Memory });
