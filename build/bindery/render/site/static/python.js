/* Numbers as Python has them: whole numbers without end (BigInt), others as in every language, and
   what Python does with both, its errors too. Written for what bindery translates from Python. */

"use strict";

const python = (() => {
  class PythonError extends Error {}
  const fail = (what) => { throw new PythonError(what); };

  /** A whole number where the value is one, true and false among them; else the number. */
  function number(value) {
    if (typeof value === "bigint" || typeof value === "number") return value;
    if (typeof value === "boolean") return BigInt(value);
    return fail("this is no number");
  }

  function float(value) {
    const result = Number(number(value));
    if (typeof value === "bigint" && !Number.isFinite(result)) fail("too large for a float");
    return result;
  }

  const combine = (whole, other) => (left, right) => {
    const [a, b] = [number(left), number(right)];
    return typeof a === "bigint" && typeof b === "bigint" ? whole(a, b) : other(float(a), float(b));
  };

  const EXACT = 2n ** 53n;
  const size = (value) => (value < 0n ? -value : value);

  /** The quotient of two whole numbers, rounded once, to the nearest and to even. */
  function divideWhole(a, b) {
    if (size(a) <= EXACT && size(b) <= EXACT) return Number(a) / Number(b);
    const sign = (a < 0n) === (b < 0n) ? 1 : -1;
    const [top, bottom] = [size(a), size(b)];
    const shift = top.toString(2).length - bottom.toString(2).length - 66;
    const scaled = shift < 0 ? top << BigInt(-shift) : top;
    const divisor = shift > 0 ? bottom << BigInt(shift) : bottom;
    // One more bit shows whether anything is left; far below the last place, it breaks ties.
    const quotient = (scaled / divisor) << 1n | (scaled % divisor ? 1n : 0n);
    const result = Number(quotient) * 2 ** (shift - 1);
    return Number.isFinite(result) ? sign * result : fail("too large for a float");
  }

  function raise(a, b) {
    if (a === 0 && b < 0) fail("division by zero");
    const result = a ** b;
    if (Number.isNaN(result) && !Number.isNaN(a) && !Number.isNaN(b)) fail("no real number");
    if (!Number.isFinite(result) && Number.isFinite(a) && Number.isFinite(b)) fail("too large");
    return result;
  }

  const ofFloat = (name, isInside) => (value) => {
    const x = float(value);
    if (!isInside(x)) fail(`${name} of this is not defined`);
    const result = Math[name](x);
    if (!Number.isFinite(result) && Number.isFinite(x)) fail(`${name} of this is too large`);
    return result;
  };

  function compare(left, right) {
    const [a, b] = [number(left), number(right)];
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : NaN;
  }

  function equal(left, right) {
    const isText = typeof left === "string" || typeof right === "string";
    return isText ? left === right : compare(left, right) === 0;
  }

  function item(container, key) {
    if (container instanceof Map) {
      return container.has(key) ? container.get(key) : fail(`there is no '${key}'`);
    }
    const place = Number(number(key));
    const found = container[place < 0 ? container.length + place : place];
    return found === undefined ? fail("there is no such element") : found;
  }

  /** The first of the least, or of the greatest. */
  const choose = (sign) => (...values) =>
    values.reduce((best, value) => (sign * compare(value, best) > 0 ? value : best));

  const python = {
    PythonError,
    // Since 3.12 Python adds floats with a second term that keeps what rounding took away.
    compensates: true,
    add: combine((a, b) => a + b, (a, b) => a + b),
    sub: combine((a, b) => a - b, (a, b) => a - b),
    mul: combine((a, b) => a * b, (a, b) => a * b),
    div(left, right) {
      const [a, b] = [number(left), number(right)];
      if (b == 0) fail("division by zero");
      const isWhole = typeof a === "bigint" && typeof b === "bigint";
      return isWhole ? divideWhole(a, b) : float(a) / float(b);
    },
    pow: combine((a, b) => (b >= 0n ? a ** b : raise(float(a), float(b))), raise),
    neg: (value) => -number(value),
    lt: (a, b) => compare(a, b) < 0,
    le: (a, b) => compare(a, b) <= 0,
    gt: (a, b) => compare(a, b) > 0,
    ge: (a, b) => compare(a, b) >= 0,
    eq: equal,
    ne: (a, b) => !equal(a, b),
    truth(value) {
      if (typeof value === "string" || Array.isArray(value)) return value.length > 0;
      return value instanceof Map ? value.size > 0 : value !== null && number(value) != 0;
    },
    item,
    values: (map) => [...map.values()],
    unpack: (values, count) => (values.length === count ? values : fail(`not ${count} values`)),
    min: choose(-1),
    max: choose(1),
    sqrt: ofFloat("sqrt", (x) => x >= 0),
    exp: ofFloat("exp", () => true),
    expm1: ofFloat("expm1", () => true),
    log2: ofFloat("log2", (x) => x > 0),
    ceil(value) {
      const x = number(value);
      if (typeof x === "bigint") return x;
      return Number.isFinite(x) ? BigInt(Math.ceil(x)) : fail("no whole number");
    },
    sum(values) {
      let total = 0n;
      let lost = 0;
      for (const value of values) {
        const x = number(value);
        if (typeof x === "number" && python.compensates) {
          total = float(total);
          const next = total + x;
          lost += Math.abs(total) >= Math.abs(x) ? total - next + x : x - next + total;
          total = next;
        } else {
          total = python.add(total, x);
        }
      }
      return lost && Number.isFinite(lost) ? total + lost : total;
    },
  };
  return python;
})();

window.python = python;
