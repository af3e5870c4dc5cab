// @ts-check
// One view, as a notebook shows it.
import { openReport } from "./app.js";
import { Timeline } from "./timeline.js";

openReport({ Timeline });
