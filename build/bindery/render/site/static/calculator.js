/* A calculator: reads the form, computes with what was translated from Python, shows the answer, and
   keeps the inputs in the address. Nothing is sent anywhere. */

"use strict";

(() => {
  const form = document.querySelector("form.calculator");
  const fault = document.querySelector(".fault");
  const command = document.querySelector("code.command");
  const link = document.querySelector("p.link");
  const start = command.textContent;
  const { inputs, outputs } = calculator;

  class WrongUse extends Error {}

  // --- reading ---

  const POWERS = { k: 3, K: 3, M: 6, B: 9, G: 9, T: 12, P: 15, E: 18 };

  /* A number of things: 70B, 1.5T, 128K are powers of 1000, 128Ki is one of 1024. */
  function readAmount(text) {
    const found = /^(\d*\.?\d+(?:[eE][+-]?\d+)?)(?:([kKMBGTPE])|([KMGTPE])i)?$/.exec(text.trim());
    if (!found) throw new WrongUse(`'${text}' is not a number: write 70B, 1.5T or 8192`);
    if (found[3]) return Number(found[1]) * 1024 ** (" KMGTPE".indexOf(found[3]));
    return Number(found[1]) * 10 ** (found[2] ? POWERS[found[2]] : 0);
  }

  /* A number with a unit of its own, where 8B would be bytes. */
  function readQuantity(text) {
    const stripped = text.trim();
    if (/\d[KB]$/.test(stripped)) {
      throw new WrongUse(`'${stripped}' is not a number: write 7.5e9, 7.5G or 80Gi`);
    }
    return readAmount(stripped.replace(/B$/, ""));
  }

  function readSeconds(text) {
    if (/^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(text)) return Number(text);
    const found = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?$/.exec(text.trim());
    const [days, hours, minutes, rest] = (found ?? []).slice(1).map((part) => Number(part ?? 0));
    const seconds = 86400 * days + 3600 * hours + 60 * minutes + rest;
    if (!(seconds > 0)) throw new WrongUse(`'${text}' is not a duration: write 90s, 10m or 1h30m`);
    return seconds;
  }

  function showBound(value) {
    const number = Number(value);
    return Number.isInteger(number) && Math.abs(number) < 1e9 ? group(String(number)) : showGeneral(number, 6);
  }

  function readInput(asked, text) {
    if (asked.kind === "boolean") return text === "yes";
    if (asked.kind === "choice") return asked.choices.find((choice) => String(choice) === text);
    const read = { s: readSeconds, 1: readAmount, "1/s": readAmount }[asked.unit] ?? readQuantity;
    const value = read(text);
    if (asked.kind === "integer" && !Number.isInteger(value)) {
      throw new WrongUse(`${asked.label}: this has to be a whole number`);
    }
    for (const [word, bound, isBeyond] of [
      ["least", asked.minimum, asked.minimum !== null && value < asked.minimum],
      ["most", asked.maximum, asked.maximum !== null && value > asked.maximum],
    ]) {
      if (isBeyond) {
        throw new WrongUse(
          `${asked.label}: it must be at ${word} ${showBound(bound)}, not ${showBound(value)}`);
      }
    }
    return asked.kind === "integer" ? BigInt(value) : value;
  }

  // --- showing: as the tool prints it ---

  /** With commas in the digits before the point. */
  const group = (text) => text.replace(/\d+/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));

  /** With so many decimals, a half to the even digit, as Python does. */
  function showFixed(value, digits) {
    if (Math.abs(value) >= 1e21) return String(BigInt(value));
    const text = value.toFixed(digits);
    const exact = value.toFixed(Math.min(100, digits + 60));
    const rest = exact.slice(exact.indexOf(".") + 1 + digits);
    if (!/^50*$/.test(rest)) return text;
    const cut = exact.slice(0, exact.indexOf(".") + (digits ? digits + 1 : 0));
    return Number(cut.at(-1)) % 2 ? text : cut;
  }

  /** The format `g`. */
  function showGeneral(value, digits) {
    if (value === 0) return "0";
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const power = Number(exponent);
    const strip = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (power < -4 || power >= digits) {
      const sign = power < 0 ? "-" : "+";
      return `${strip(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
    }
    return strip(value.toFixed(Math.max(0, digits - 1 - power)));
  }

  function showSignificant(value) {
    if (value === 0) return "0";
    const digits = Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))));
    return digits <= 8 ? group(showFixed(value, digits)) : showGeneral(value, 4);
  }

  const PREFIXES = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];

  function showPrefixed(value, unit, base = 1000) {
    let power = 0;
    while (Math.abs(value) >= base && power < 8) [value, power] = [value / base, power + 1];
    const prefix = base === 1000 ? PREFIXES[power] : power ? `${PREFIXES[power].toUpperCase()}i` : "";
    return `${showSignificant(value)} ${prefix}${unit}`.trimEnd();
  }

  function showCount(given) {
    const value = Number(given);
    if (Math.abs(value) >= 1e21) return showGeneral(value, 4);
    const isWhole = typeof given === "bigint" || Number.isInteger(value);
    if (isWhole) return group(String(BigInt(given)));
    return Math.abs(value) >= 1000 ? group(showFixed(value, 0)) : showSignificant(value);
  }

  function showQuantity(given, unit) {
    const value = Number(given);
    if (unit === "s" && value >= 60) {
      for (const [seconds, name] of [[86400, "days"], [3600, "h"], [60, "min"]]) {
        if (value >= 2 * seconds || name === "min") return `${showSignificant(value / seconds)} ${name}`;
      }
    }
    if (unit === "s" && value > 0 && value < 1) {
      const [factor, name] = value >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
      return `${showSignificant(value * factor)} ${name}`;
    }
    if (unit === "1") return showCount(given);
    if (unit === "1/s" && Math.abs(value) < 1e6) return `${showCount(given)} /s`;
    const text = showPrefixed(value, unit.replace(/^1/, ""));
    return unit === "B" && value >= 1024 ? `${text} (${showPrefixed(value, "B", 1024)})` : text;
  }

  // --- the page ---

  const readText = (asked) => form.elements[asked.name].value;
  const defaults = new Map(inputs.map((asked) => [asked.name, readText(asked)]));

  function readForm() {
    const given = new Map();
    for (const asked of inputs) {
      const field = form.elements[asked.name];
      field.removeAttribute("aria-invalid");
      try {
        given.set(asked.name, readInput(asked, field.value));
      } catch (error) {
        field.setAttribute("aria-invalid", "true");
        throw error;
      }
    }
    return given;
  }

  function check(given) {
    try {
      return calculator.check(given);
    } catch (error) {
      if (!(error instanceof python.PythonError)) throw error;
      return calculator.reasons[0] ?? "these numbers are too extreme";
    }
  }

  function answer() {
    try {
      const given = readForm();
      const reason = check(given);
      if (reason) throw new WrongUse(reason);
      fault.textContent = "";
      return calculator.compute(given);
    } catch (error) {
      if (error instanceof python.PythonError) fault.textContent = "these numbers are too extreme";
      else if (error instanceof WrongUse) fault.textContent = error.message;
      else throw error;
      return null;
    }
  }

  const quote = (text) => (/^[\w.+:-]+$/.test(text) ? text : `'${text}'`);

  function show() {
    const found = answer();
    for (const { name, unit } of outputs) {
      const value = found?.get(name);
      document.getElementById(`out-${name}`).value = found ? showQuantity(value, unit) : "–";
      document.getElementById(`exact-${name}`).value = found ? String(value) : "–";
    }
    const changed = inputs.filter((asked) => readText(asked) !== defaults.get(asked.name));
    command.textContent = start + changed.map((asked) => ` --${asked.name.replaceAll("_", "-")} ${quote(readText(asked))}`).join("");
    const query = new URLSearchParams(changed.map((asked) => [asked.name, readText(asked)]));
    const address = changed.length ? `#${query}` : "#inputs";
    link.querySelector("a").href = address;
    link.querySelector("a").textContent = address;
    link.hidden = !changed.length;
    if (location.hash.includes("=") || changed.length) history.replaceState(null, "", address);
  }

  function restore() {
    const query = new URLSearchParams(location.hash.slice(1));
    for (const asked of inputs) {
      const field = form.elements[asked.name];
      const text = query.get(asked.name);
      if (text === null) continue;
      const isChoice = field instanceof HTMLSelectElement;
      if (!isChoice || [...field.options].some((option) => option.value === text)) field.value = text;
    }
    show();
  }

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
  addEventListener("hashchange", () => { if (location.hash.includes("=")) restore(); });
  restore();
  window.showQuantity = showQuantity;
  window.readAmount = (text) => {
    try { return readAmount(text); } catch (error) { return error.message; }
  };
})();
