/* Your run beside the records of the book: like with like only, as `bindery compare` has it. The
   file is read in the browser; nothing is sent anywhere. */

"use strict";

(() => {
  const shared = JSON.parse(document.getElementById("shared").textContent);
  const field = document.getElementById("yours-file");
  const hardware = document.getElementById("yours-hardware");
  const verdict = document.querySelector(".verdict");
  const plot = document.querySelector("svg.strip");

  class Refused extends Error {}

  const isNumber = (value) => typeof value === "number";
  const isScalar = (value) => ["string", "number", "boolean"].includes(typeof value);
  const show = (value) => (value === null || value === undefined ? "null" : String(value));
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const makeKey = (values) => JSON.stringify(values.map((value) => value ?? null));

  // --- what a reader gives ---

  function describeHardware(machine) {
    const counts = new Map();
    for (const one of machine.accelerators ?? []) {
      const name = one.model || one.vendor || "unknown accelerator";
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    if (counts.size) return [...counts].map(([name, number]) => `${number} x ${name}`).join(", ");
    const cpu = machine.cpu ?? {};
    const parts = [cpu.model || `${`unknown ${cpu.architecture ?? ""}`.trimEnd()} processor`];
    if (cpu.instruction_sets?.length) parts[0] += ` with ${cpu.instruction_sets.at(-1)}`;
    const cores = cpu.cores || cpu.threads;
    if (isNumber(cpu.sockets)) parts.push(count(cpu.sockets, "socket"));
    if (isNumber(cores)) parts.push(count(cores, isNumber(cpu.cores) ? "core" : "thread"));
    return parts.join(", ");
  }

  function describePower(machine) {
    const limits = (machine.accelerators ?? []).map((one) => one.power_limit_watts);
    if (!limits.length || !limits.every(isNumber)) return "";
    const counts = new Map();
    for (const limit of limits.map(Math.round)) counts.set(limit, (counts.get(limit) ?? 0) + 1);
    if (counts.size === 1) return `${[...counts.keys()][0]} W`;
    const sorted = [...counts].sort((a, b) => a[0] - b[0]);
    return sorted.map(([limit, number]) => `${number} x ${limit} W`).join(", ");
  }

  function readSettings(data) {
    return Object.fromEntries(shared.alike.map((place) => {
      let value = { details: data.details ?? {} };
      for (const part of place.split(".")) {
        value = value !== null && typeof value === "object" ? value[part] : undefined;
      }
      return [place, isScalar(value) ? value : null];
    }));
  }

  /** What is to be compared. Throws Refused with a sentence. */
  function readRun(text) {
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      throw new Refused("This file is not JSON: choose the file that the tool wrote with --json.");
    }
    const isObject = data !== null && typeof data === "object" && !Array.isArray(data);
    if (!isObject || typeof data.tool !== "string") {
      throw new Refused("This file names no tool: choose a record, or the file that the tool wrote with --json.");
    }
    if (data.tool !== shared.tool) {
      throw new Refused(`This file is from ${data.tool}, but this page is about ${shared.tool}.`);
    }
    const isRecord = "schema" in data;
    if (isRecord && data.schema !== 2) {
      throw new Refused(`This record has schema ${show(data.schema)}, but this page reads schema 2.`);
    }
    const isRow = (row) => row !== null && typeof row === "object" && !Array.isArray(row);
    if (!Array.isArray(data.results) || !data.results.every(isRow)) {
      throw new Refused("This file has no results.");
    }
    const methods = [...new Set(shared.records.map((record) => record.method))];
    if (!methods.includes(data.method)) {
      throw new Refused(`Your run used method ${show(data.method)}, but the records here used method ` +
        `${methods.join(" and ")}, which measures something else.`);
    }
    const one = shared.hasRanks ? null : 1;
    const run = { method: data.method, rows: data.results, settings: readSettings(data), notes: [] };
    if (isRecord) {
      const machine = data.machine ?? {};
      Object.assign(run, { hardware: describeHardware(machine), powerLimit: describePower(machine),
        nodes: data.nodes ?? 1, ranks: data.ranks ?? 1 });
      if (data.ended === "failed") run.notes.push("The tool reported a problem at the end of your run.");
    } else {
      Object.assign(run, { hardware: hardware.value || null, powerLimit: "", nodes: one, ranks: one });
      if (!hardware.value) run.notes.push("Your file does not name its hardware, and you have not chosen any.");
    }
    run.isJudged = run.hardware !== null || shared.alike.some((place) => place.endsWith("device_model"));
    if (data.complete !== true) run.notes.push("Your run is incomplete.");
    return run;
  }

  // --- like with like ---

  function findDifferences(run, record) {
    const found = [];
    if (run.method !== record.method) found.push([`of method ${record.method}`, `of method ${run.method}`]);
    if (run.hardware !== null && run.hardware.toLowerCase() !== record.hardware.toLowerCase()) {
      found.push([`on ${record.hardware}`, `on ${run.hardware}`]);
    } else if (run.powerLimit && record.powerLimit && run.powerLimit !== record.powerLimit) {
      found.push([`at a power limit of ${record.powerLimit}`, `at one of ${run.powerLimit}`]);
    }
    for (const noun of ["node", "rank"]) {
      const [ours, theirs] = [run[`${noun}s`], record[`${noun}s`]];
      if (ours !== null && ours !== theirs) found.push([`of ${count(theirs, noun)}`, `of ${count(ours, noun)}`]);
    }
    for (const [place, theirs] of Object.entries(record.settings)) {
      const ours = run.settings[place] ?? null;
      const name = place.split(".").at(-1);
      if (ours !== theirs) found.push([`with ${name} ${show(theirs)}`, `with ${name} ${show(ours)}`]);
    }
    return found;
  }

  function explainDistrust(row) {
    for (const [column, values] of Object.entries(shared.trusted)) {
      if (!values.includes(row[column] ?? null)) return `${column} is '${show(row[column])}'`;
    }
    const value = row[shared.value];
    return isNumber(value) && value > 0 ? "" : `${shared.value} is ${show(value)}`;
  }

  function judge(run, ratio, margin) {
    if (!run.isJudged) return "not judged";
    if (Math.abs(ratio - 1) <= margin) return "within";
    const far = Math.abs(ratio - 1) > shared.far * margin ? "far " : "";
    return ratio < 1 ? `${far}below` : `${far}above`;
  }

  const isWorse = (word) => word.endsWith(shared.higherIsBetter ? "below" : "above");

  /* What a verdict means: for times and rates that something is slower, else that it is worse. */
  function tellVerdict(word) {
    if (word === "within") return "as expected";
    if (word === "not judged") return word;
    const isSpeed = shared.unit === "s" || shared.unit.endsWith("/s");
    const kind = isWorse(word) ? (isSpeed ? "slower" : "worse") : (isSpeed ? "faster" : "better");
    return `${word.startsWith("far") ? "far " : ""}${kind}`;
  }

  function nameRow(values, member) {
    const text = shared.keys.map((key, index) => `${key} ${show(values[index])}`).join(", ");
    return member ? `${text} on ${member}` : text;
  }

  function matchRows(run, record) {
    const recorded = new Map(record.rows.map(([key, value, spread]) => [makeKey(key), { value, spread }]));
    const untrusted = new Map(record.untrusted.map(([key, reason]) => [makeKey(key), reason]));
    const rows = [];
    const leftOut = [];
    for (const row of run.rows) {
      const values = shared.keys.map((key) => row[key]);
      const key = makeKey(values);
      const label = nameRow(values, shared.member ? show(row[shared.member]) : "");
      const theirs = recorded.get(key);
      const reason = explainDistrust(row);
      if (reason) leftOut.push(`${label}: ${reason} in yours`);
      else if (untrusted.has(key)) leftOut.push(`${label}: ${untrusted.get(key)} in the record`);
      else if (!theirs) leftOut.push(`${label}: the record has no such row`);
      else {
        const margin = Math.max(shared.tolerance, theirs.spread ?? 0);
        const yours = row[shared.value];
        const ratio = yours / theirs.value;
        rows.push({ key, values, label, yours, recorded: theirs.value, ratio, margin, verdict: judge(run, ratio, margin), hasSpread: theirs.spread !== null });
      }
    }
    return { rows, leftOut };
  }

  /** The run beside the newest record that is like it and shares a row with it. */
  function compareRun(run) {
    const alike = shared.records.filter((record) => !findDifferences(run, record).length);
    for (const record of alike) {
      const { rows, leftOut } = matchRows(run, record);
      if (rows.length) {
        const ratio = Math.exp(rows.reduce((sum, row) => sum + Math.log(row.ratio), 0) / rows.length);
        const margins = rows.map((row) => row.margin).sort((a, b) => a - b);
        const half = margins.length / 2;
        const margin = (margins[Math.ceil(half) - 1] + margins[Math.floor(half)]) / 2;
        return { record, rows, leftOut, ratio, margin, verdict: judge(run, ratio, margin) };
      }
    }
    if (alike.length) {
      const { leftOut } = matchRows(run, alike[0]);
      const some = leftOut.slice(0, 5).map((text) => `${text}.`);
      throw new Refused([`None of your rows can be compared with ${alike[0].name}.`, ...some].join(" "));
    }
    const nearest = shared.records.map((record) => [record, findDifferences(run, record)])
      .reduce((best, one) => (one[1].length < best[1].length ? one : best));
    const [theirs, yours] = [0, 1].map((side) => nearest[1].map((pair) => pair[side]).join(", "));
    throw new Refused(`No record is comparable with yours. The closest, ${nearest[0].name}, is ${theirs}; yours is ${yours}.`);
  }

  // --- showing it ---

  const PREFIXES = ["n", "µ", "m", "", "k", "M", "G", "T", "P", "E"];
  const SCALED = ["s", "B", "B/s", "FLOP", "FLOP/s", "Hz", "W", "J"];

  function showValue(value) {
    if (!SCALED.includes(shared.unit)) return Number(value.toPrecision(4)).toLocaleString(document.documentElement.lang);
    const least = shared.unit === "s" ? -3 : 0;
    const power = Math.max(least, Math.min(6, Math.floor(Math.log10(value) / 3 + 1e-9)));
    return `${Number((value / 1000 ** power).toPrecision(4))} ${PREFIXES[power + 3]}${shared.unit}`;
  }

  /** A key as people read it: sizes that are powers of 1024 with their prefix. */
  function showKey(column, value) {
    if (!/bytes/.test(column) || !Number.isInteger(value) || value < 1024 || value % 1024) return show(value);
    let power = 0;
    while (power < 6 && value % 1024 === 0) [value, power] = [value / 1024, power + 1];
    return `${value} ${"KMGTPE"[power - 1]}iB`;
  }

  function make(name, text = "", parent = null) {
    const element = document.createElement(name);
    element.textContent = text;
    parent?.append(element);
    return element;
  }

  function showComparison(comparison, notes) {
    const { record, rows, leftOut, ratio, verdict: word } = comparison;
    const percent = (share) => `${(100 * share).toFixed(1)} %`;
    const summary = make("p", "", verdict);
    make("strong", `Yours is ${percent(ratio)} of ${record.name}: ${/within|not judged/.test(word) ? tellVerdict(word) : `${tellVerdict(word)} than expected`}`, summary)
      .className = isWorse(word) ? "worse" : "";
    summary.append(`, over ${count(rows.length, "row")}. That record was made on ${record.hardware}, ${record.started.slice(0, 10)}.`);
    for (const note of notes) make("p", note, verdict);
    const assumed = rows.filter((row) => !row.hasSpread).length;
    if (assumed) {
      make("p", `${assumed === rows.length ? "The record has no spread" : `The record has no spread in ${count(assumed, "row")}`}: ` +
        `± ${percent(shared.tolerance)} is assumed there. A single run on a busy machine may well fall outside it.`, verdict);
    }
    const box = make("div", "", verdict);
    box.className = "table";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Your rows next to the record's");
    const table = make("table", "", box);
    const head = make("tr", "", make("thead", "", table));
    const told = shared.keys.map((_, index) => index).filter((index) =>
      rows.length === 1 || new Set(rows.map((row) => show(row.values[index]))).size > 1);
    for (const title of [...told.map((index) => shared.keys[index].replaceAll("_", " ")), "yours", "recorded", "yours / recorded", "expected", "verdict"]) {
      make("th", title, head).scope = "col";
    }
    const body = make("tbody", "", table);
    for (const row of rows) {
      const line = make("tr", "", body);
      for (const index of told) make("td", showKey(shared.keys[index], row.values[index]), line);
      for (const text of [showValue(row.yours), showValue(row.recorded), percent(row.ratio), `± ${percent(row.margin)}`]) {
        make("td", text, line).className = "right";
      }
      make("td", tellVerdict(row.verdict), line).className = isWorse(row.verdict) ? "worse" : "";
    }
    window.watchEdges(box);
    for (const text of leftOut.slice(0, 5)) make("p", `Skipped: ${text}.`, verdict);
    if (leftOut.length > 5) make("p", `Skipped: ${leftOut.length - 5} more.`, verdict);
  }

  // --- the plot: a line for each row, a point for each record, and yours ---

  const [LINE, MOST] = [24, 14];

  function draw(rows) {
    // As wide as its place, so that letters keep their size on a telephone.
    const width = Math.max(300, Math.min(700, plot.parentElement.clientWidth));
    const left = Math.round(width * 0.38);
    const letters = Math.floor((left - 10) / 7);
    const labels = new Map();
    const add = (values) => {
      const key = makeKey(values);
      if (!labels.has(key)) labels.set(key, values);
    };
    for (const row of rows) add(row.values);
    for (const record of shared.records) for (const [key] of record.rows) add(key);
    const keys = [...labels.keys()].slice(0, MOST);
    const varied = shared.keys.map((_, index) =>
      new Set(keys.map((key) => show(labels.get(key)[index]))).size > 1 || shared.keys.length === 1);
    const points = [];
    shared.records.slice(0, 6).forEach((record, series) => {
      for (const [key, value] of record.rows) {
        const line = keys.indexOf(makeKey(key));
        if (line >= 0) points.push({ line, value, series, name: record.name });
      }
    });
    for (const row of rows) {
      const line = keys.indexOf(row.key);
      if (line >= 0) points.push({ line, value: row.yours, series: -1, name: "yours" });
    }
    if (!points.length) return;
    const all = points.map((point) => point.value);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const isLog = high > 20 * low;
    const place = (value) => (isLog ? Math.log(value) : value);
    const [from, to] = [isLog ? Math.log(low) : 0, place(high) === (isLog ? Math.log(low) : 0) ? place(high) + 1 : place(high)];
    const across = (value) => left + 10 + ((place(value) - from) / (to - from)) * (width - left - 40);
    const height = keys.length * LINE + 52;
    plot.setAttribute("width", width);
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.replaceChildren();
    const put = (name, attributes, text = "") => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      plot.append(element);
      return element;
    };
    keys.forEach((key, line) => {
      const y = line * LINE + 16;
      const text = labels.get(key).map((value, index) => (varied[index] ? showKey(shared.keys[index], value) : ""))
        .filter(Boolean).join(", ") || "all";
      put("line", { x1: left, x2: width - 10, y1: y, y2: y, class: "rail" });
      put("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
    });
    for (const { line, value, series, name } of points) {
      const [x, y] = [across(value), line * LINE + 16];
      const mark = series < 0
        ? put("path", { d: `M${x} ${y - 7}l7 7-7 7-7-7z`, class: "yours" })
        : put("circle", { cx: x, cy: y, r: 5, class: series ? "older" : "newest" });
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = `${name}: ${showValue(value)}`;
      mark.append(title);
    }
    const foot = keys.length * LINE + 22;
    put("text", { x: left, y: foot }, isLog ? showValue(low) : "0");
    put("text", { x: width - 10, y: foot, "text-anchor": "end" }, `${showValue(high)}${isLog ? ", logarithmic" : ""}`);
    let x = left;
    for (const [sign, kind, words] of [
      ["●", "newest", "newest record"], ["○", "older", "older"], ...(rows.length ? [["◆", "yours", "yours"]] : []),
    ]) {
      put("text", { x, y: foot + 20, class: `sign ${kind}` }, sign);
      put("text", { x: x + 14, y: foot + 20 }, words);
      x += 30 + 7 * words.length;
    }
    plot.removeAttribute("style");
  }

  // --- the page ---

  let last = null;

  function answer() {
    verdict.replaceChildren();
    if (last === null) return;
    try {
      const run = readRun(last);
      const comparison = compareRun(run);
      showComparison(comparison, run.notes);
      draw(comparison.rows);
      window.comparison = comparison;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      make("p", error.message, verdict).className = "fault";
      draw([]);
      window.comparison = null;
    }
  }

  async function take(file) {
    if (!file) return;
    try {
      last = await file.text();
    } catch {
      last = "";  // it has gone, or changed since
    }
    answer();
  }

  for (const name of new Set(shared.records.map((record) => record.hardware))) {
    hardware.append(new Option(name, name));
  }
  // The same file, written again, is chosen again.
  field.addEventListener("click", () => { field.value = ""; });
  field.addEventListener("change", () => take(field.files[0]));
  hardware.addEventListener("change", answer);
  const zone = document.querySelector(".yours");
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
  addEventListener("resize", () => draw(window.comparison?.rows ?? []));
  draw([]);
})();
