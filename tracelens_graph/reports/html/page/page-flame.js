// @ts-check
// One view, as a notebook shows it.
import { openReport } from "./app.js";
import { Flame } from "./flame.js";

openReport({ Flame });
