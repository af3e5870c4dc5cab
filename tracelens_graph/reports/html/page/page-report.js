// @ts-check
// A report of a trace that records no memory.
import { openReport } from "./app.js";
import { Flame } from "./flame.js";
import { Overview } from "./overview.js";
import { Roofline } from "./roofline.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";

openReport({ Overview, Timeline, Flame, Tables, Roofline });
