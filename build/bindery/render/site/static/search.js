/* The search of the book: `/` opens it, arrows and Enter choose, Escape closes.

   `search-index.js` holds the text of every section; a page that was opened as a file can read it
   too. Sections are ranked by BM25F (Robertson and Zaragoza 2009) over heading, the titles above it
   and text; all words count more than some of them, and so does a heading that says nothing
   else. */

"use strict";

(() => {
  const root = document.querySelector("header.book").dataset.root;
  const MOST_PAGES = 12;
  const MOST_SECTIONS = 4;
  const AROUND = 70;
  const IN_HEADING = 8, IN_TITLES = 2; // how much a word counts there, beside one in the text
  const SATURATION = 3; // the k1 of BM25
  const OF_SYNONYM = 0.8, OF_LETTERS = 0.6; // the latter: "zero" where "ZeRO-3" was typed
  const OF_BEGINNING = 0.4; // "gradient" where "grad" was typed
  const COVERAGE = 1.3; // how much it matters that all words are there
  const OF_HEADING = 0.3; // the gain of a heading all of whose words are asked for
  const STOP = new Set(("a an and are as at be by can do does for from has have how i if in is it my not of on or " +
    "our should than that the this to vs versus was we what when where which who why will with you your").split(" "));
  let dialog, field, list, state;
  let index = null;
  let answered = "";
  let goesOn = false; // whether more pages have what was asked for than are shown

  // --- words ---

  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  /* Forms of a word are the same: caches, caching and cached; timeouts and timeout. */
  function stem(word) {
    if (word.length < 4 || /\d/.test(word)) return word;
    let cut = word.replace(/ies$/, "y").replace(/([^sui])s$/, "$1");
    const short = cut.replace(/(ing|ed)$/, "");
    if (short !== cut && short.length > 2) cut = short.replace(/([bdgmnprt])\1$/, "$1");
    return cut.length > 4 ? cut.replace(/e$/, "") : cut;
  }

  /* The words of a text; of "time-out" and "ZeRO-3" the parts and the whole. */
  function splitWords(text) {
    const words = [];
    if (/[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]/u.test(text)) { // no blanks between words
      return [...new Intl.Segmenter(document.documentElement.lang, { granularity: "word" }).segment(fold(text))]
        .filter(({ isWordLike }) => isWordLike).map(({ segment }) => stem(segment));
    }
    for (const [run] of fold(text).matchAll(/[\p{L}\p{N}]+(?:[-_./'’][\p{L}\p{N}]+)*/gu)) {
      const parts = run.split(/[^\p{L}\p{N}]+/u);
      words.push(...parts.map(stem));
      if (parts.length > 1) words.push(stem(parts.join("")));
    }
    return words;
  }

  // --- the index ---

  function loadIndex() {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${root}search-index.js`;
      script.addEventListener("load", () => resolve(makeIndex(window.searchIndex)));
      script.addEventListener("error", () => reject(new Error("search-index.js")));
      document.head.append(script);
    });
  }

  /* For each word the sections that have it, with how often it counts there. */
  function makeIndex({ pages, synonyms }) {
    const sections = [];
    const postings = new Map();
    for (const [href, title, parts, weight] of pages) {
      const page = { href, title, weight };
      for (const [slug, heading, prose, rest, above] of parts) {
        const words = splitWords(`${prose} ${rest}`);
        const number = sections.push({ page, slug, heading, prose, rest, length: words.length }) - 1;
        const counts = new Map();
        const count = (word, weight) => counts.set(word, (counts.get(word) ?? 0) + weight);
        for (const word of words) count(word, 1 / (1.5 + words.length / 300));
        for (const word of new Set(splitWords(heading || title))) count(word, IN_HEADING);
        for (const word of new Set(splitWords(`${title} ${above}`))) count(word, IN_TITLES);
        for (const [word, weight] of counts) {
          if (!postings.has(word)) postings.set(word, new Map());
          postings.get(word).set(number, weight);
        }
      }
    }
    return { sections, postings, synonyms: synonyms.map((names) => names.map((name) => [...new Set(splitWords(name))])) };
  }

  /* What is asked for: lists of words of which one will do, each with how much it counts. */
  function readQuery(typed) {
    const all = [...new Set(splitWords(typed))];
    // "ZeRO-3", "zero3": one word, of which the number alone says nothing.
    const compounds = [...fold(typed).matchAll(/(?<![\p{L}\p{N}])(\p{L}{3,})[-_]?(\d+)(?![\p{L}\p{N}.])/gu)]
      .map(([, letters, digits]) => [letters + digits, stem(letters), digits]);
    const parts = compounds.flatMap(([, ...both]) => both);
    const kept = all.filter((word) => !STOP.has(word) && !parts.includes(word));
    const words = kept.length ? kept : all;
    const wanted = words.map((word) => new Map([
      ...listLonger(word).map((form) => [form, OF_BEGINNING]), ...listForms(word).map((form) => [form, 1]),
    ]));
    for (const [whole, letters] of compounds) wanted[words.indexOf(whole)]?.set(letters, OF_LETTERS);
    for (const names of index.synonyms) {
      const own = names.findIndex((name) => name.every((word) => all.includes(word)));
      if (own < 0) continue;
      // Of a name of several words a section has to have all.
      const others = names.filter((_, i) => i !== own).map((name) => name.filter((word) => !STOP.has(word)).join(" "));
      wanted.forEach((forms, i) => {
        if (!names[own].includes(words[i])) return;
        for (const other of others) if (!forms.has(other)) forms.set(other, OF_SYNONYM);
      });
    }
    return wanted.filter((forms) => forms.size);
  }

  /* A word as the book has it, or the words of the book that begin with it, or that have one
     letter more, less or instead. MI300 is also MI300X. */
  function listForms(word) {
    const all = [...index.postings.keys()];
    if (/\p{L}.*\d$/u.test(word)) return [word, ...all.filter((known) => known.startsWith(word) && /^\p{L}$/u.test(known.slice(word.length)))];
    if (index.postings.has(word) || word.length < 3) return [word];
    const longer = all.filter((known) => known.startsWith(word));
    const near = longer.length || word.length < 5 ? longer : all.filter((known) => isNear(word, known));
    return near.slice(0, 30);
  }

  function listLonger(word) {
    if (!/^\p{L}{4,}$/u.test(word)) return [];
    return [...index.postings.keys()].filter((known) => known.startsWith(word) && /^\p{L}+$/u.test(known)).slice(0, 30);
  }

  function isNear(a, b) {
    const [less, most] = [Math.min(a.length, b.length), Math.max(a.length, b.length)];
    let start = 0, end = 0;
    while (start < less && a[start] === b[start]) start += 1;
    while (end < less - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
    return start + end >= most - 1;
  }

  // --- the ranking ---

  /* The sections that have all words, with how often the rarest of them counts there. */
  function findAll(words) {
    const [first, ...others] = words.map((word) => index.postings.get(word) ?? new Map());
    if (!others.length) return first;
    const counts = [...first].map(([number, count]) => [number, Math.min(count, ...others.map((other) => other.get(number) ?? 0))]);
    return new Map(counts.filter(([, count]) => count > 0));
  }

  const rarity = (many) => Math.log(1 + (index.sections.length - many + 0.5) / (many + 0.5));

  function findSections(typed) {
    const phrases = [...typed.matchAll(/"([^"]+)"/g)].map(([, said]) => fold(said).replace(/\s+/g, " ").trim());
    const wanted = readQuery(typed);
    const scores = new Map();
    let most = 0;
    for (const forms of wanted) {
      const found = new Map();
      let rarest = 0;
      for (const [form, weight] of forms) {
        const sections = findAll(form.split(" "));
        const value = rarity(sections.size);
        if (weight === 1) rarest = Math.max(rarest, value);
        for (const [number, count] of sections) {
          const score = weight * value * count / (count + SATURATION);
          found.set(number, Math.max(found.get(number) ?? 0, score));
        }
      }
      most += rarest;
      for (const [number, score] of found) {
        const before = scores.get(number) ?? { score: 0, covered: 0 };
        scores.set(number, { score: before.score + score, covered: before.covered + rarest });
      }
    }
    const folded = fold(typed).replaceAll('"', "").trim();
    const asked = new Set(wanted.flatMap((forms) => [...forms.keys()]));
    const ranked = [];
    for (const [number, { score, covered }] of scores) {
      const section = index.sections[number];
      const whole = phrases.length ? fold(`${section.heading} ${section.prose} ${section.rest}`) : "";
      if (!phrases.every((phrase) => whole.includes(phrase))) continue;
      const heading = fold(section.heading || section.page.title);
      const said = [...new Set(splitWords(heading))].filter((word) => !STOP.has(word));
      const share = said.filter((word) => asked.has(word)).length / (said.length || 1);
      const inHeading = (heading === folded ? 1.8 : heading.includes(folded) ? 1.3 : 1) * (1 + OF_HEADING * share);
      ranked.push({ section, score: section.page.weight * inHeading * score * (covered / most) ** COVERAGE });
    }
    return ranked.sort((a, b) => b.score - a.score);
  }

  /* The pages that answer, the best first, each with its best sections. */
  function findPages(typed) {
    const pages = new Map();
    const words = new Set(readQuery(typed).flatMap((forms) => [...forms.keys()].join(" ").split(" ")));
    goesOn = false;
    for (const { section, score } of findSections(typed)) {
      if (!pages.has(section.page) && pages.size === MOST_PAGES) { goesOn = true; continue; }
      if (!pages.has(section.page)) pages.set(section.page, { title: section.page.title, best: score, sections: [] });
      const page = pages.get(section.page);
      if (page.sections.length === MOST_SECTIONS || score < page.best / 2) continue;
      const anchor = section.slug ? `#${encodeURIComponent(section.slug)}` : "";
      page.sections.push({
        title: section.heading || section.page.title,
        href: `${root}${section.page.href}${anchor}`,
        excerpt: cut(section.prose, words) ?? cut(section.rest, words) ?? cut(section.prose, null),
      });
    }
    return [...pages.values()];
  }

  const escape = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

  /* A piece of a text around the first of some words, with all of them marked; the beginning where
     none are given, and nothing where the text has none of them. */
  function cut(text, words) {
    const hits = [];
    for (const found of words ? text.matchAll(/[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]|[\p{L}\p{N}]+(?:[-_./'’][\p{L}\p{N}]+)*/gu) : []) {
      if (splitWords(found[0]).some((word) => words.has(word))) hits.push([found.index, found.index + found[0].length]);
    }
    if (words && !hits.length) return null;
    const at = hits[0]?.[0] ?? 0;
    const from = at > AROUND ? text.indexOf(" ", at - AROUND) + 1 : 0;
    let to = Math.min(text.length, from + 3 * AROUND);
    if (to < text.length) to = Math.max(text.lastIndexOf(" ", to), at + 1);
    let marked = "", done = from;
    for (const [start, end] of hits.filter(([start, end]) => start >= from && end <= to)) {
      marked += `${escape(text.slice(done, start))}<mark>${escape(text.slice(start, end))}</mark>`;
      done = end;
    }
    return `${from ? "… " : ""}${marked}${escape(text.slice(done, to))}${to < text.length ? " …" : ""}`;
  }

  // --- the dialog ---

  function build() {
    dialog = document.createElement("dialog");
    dialog.className = "search";
    dialog.setAttribute("aria-label", say("Search the book"));
    field = document.createElement("input");
    field.type = "search";
    field.placeholder = say("Search the book");
    field.autocomplete = "off";
    field.spellcheck = false;
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-label": say("Search the book"), "aria-expanded": "false",
      "aria-controls": "found.all", "aria-autocomplete": "list",
    })) field.setAttribute(name, value);
    state = document.createElement("p");
    state.className = "state";
    state.setAttribute("role", "status");
    list = document.createElement("div");
    list.id = "found.all";
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", say("Results"));
    const close = document.createElement("button");
    close.type = "button";
    close.className = "close";
    close.textContent = say("Close");
    close.addEventListener("click", () => dialog.close());
    const top = document.createElement("div");
    top.className = "top";
    top.append(field, close);
    dialog.append(top, state, list);
    document.body.append(dialog);
    field.addEventListener("input", () => { clearTimeout(build.timer); build.timer = setTimeout(search, 120); });
    field.addEventListener("keydown", move);
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    list.addEventListener("click", (event) => { if (event.target.closest("a")) dialog.close(); });
  }

  async function open() {
    if (!dialog) build();
    if (!dialog.open) dialog.showModal();
    field.select();
    if (index) return;
    try { index = await loadIndex(); } catch (error) { state.textContent = say("Search is not available: {file} could not be loaded.", { file: error.message }); return; }
    search();
  }

  /* What is typed, or without it the chapters. */
  function search() {
    const typed = field.value.trim();
    if (index) show(typed ? findPages(typed) : listChapters(), typed);
  }

  function listChapters() {
    const pages = [...new Set(index.sections.map(({ page }) => page))].filter(({ weight }) => weight === 1);
    return [{
      title: say("Chapters"),
      sections: pages.map(({ href, title }) => ({ title, href: `${root}${href}`, excerpt: "" })),
    }];
  }

  function show(pages, typed) {
    answered = typed;
    list.replaceChildren();
    let number = 0;
    for (const page of pages) {
      const group = document.createElement("div");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", page.title);
      const head = document.createElement("p");
      head.textContent = page.title;
      head.setAttribute("role", "presentation");
      group.append(head);
      for (const section of page.sections) {
        const link = document.createElement("a");
        link.id = `found.${++number}`;
        link.href = section.href;
        link.setAttribute("role", "option");
        link.setAttribute("aria-selected", "false");
        link.tabIndex = -1;
        const title = document.createElement("b");
        title.textContent = section.title;
        const excerpt = document.createElement("span");
        excerpt.innerHTML = section.excerpt;
        link.append(title, excerpt);
        group.append(link);
      }
      list.append(group);
    }
    field.setAttribute("aria-expanded", String(number > 0));
    field.removeAttribute("aria-activedescendant");
    state.textContent = !typed ? "" : number ? say(goesOn ? "The {n} best sections" : number === 1 ? "{n} section" : "{n} sections", { n: number }) : say("No results for “{typed}”.", { typed });
    if (number && typed) choose(0);
  }

  const findOptions = () => [...list.querySelectorAll("[role=option]")];

  function choose(index) {
    findOptions().forEach((option, i) => {
      option.setAttribute("aria-selected", String(i === index));
      if (i === index) {
        field.setAttribute("aria-activedescendant", option.id);
        option.scrollIntoView({ block: "nearest" });
      }
    });
  }

  function move(event) {
    if (event.key === "Escape") { // which else only empties the field, in some browsers
      event.preventDefault();
      dialog.close();
      return;
    }
    if (event.key === "Enter") {
      event.preventDefault();
      // What is shown may still be the answer to a part of what was typed.
      if (field.value.trim() !== answered) search();
    }
    const options = findOptions();
    const now = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (options.length) choose((now + step + options.length) % options.length);
    } else if (event.key === "Enter") {
      (options[now] ?? findOptions()[0])?.click();
    }
  }

  for (const opener of document.querySelectorAll("button.search")) {
    opener.addEventListener("click", open);
  }
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    const isSlash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (isSlash || isK) {
      event.preventDefault();
      open();
    }
  });
})();
