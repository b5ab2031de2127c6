/* The search of the book: `/` opens it, arrows and Enter choose, Escape closes.

   A page from a server asks Pagefind, which loads only the parts of its index that it needs. A
   page that was opened as a file cannot; it reads a small index with the text of every section. */

"use strict";

(() => {
  const root = document.querySelector("header.book").dataset.root;
  const opener = document.querySelector("button.search");
  const MOST_PAGES = 12;
  const MOST_SECTIONS = 4;
  const AROUND = 70;
  let dialog, field, list, state;
  let asked = 0;
  let answered = "";

  const splitWords = (typed) => typed.toLowerCase().replaceAll('"', " ").split(/\s+/).filter(Boolean);

  // --- Pagefind ---

  let pagefind = null;

  async function openPagefind() {
    const base = new URL(`${root}pagefind/`, document.baseURI);
    const engine = await import(new URL("pagefind.js", base));
    await engine.options({ baseUrl: new URL(root || "./", document.baseURI).pathname, excerptLength: 22 });
    await engine.init();
    return engine;
  }

  const findWhole = (word) => new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\p{N}])`, "iu");

  /* The sections of a page that Pagefind has found. It asks for all words on a page; what has them
     in a section of it comes first, and what has them in its heading before that. */
  function rankSections(page, words) {
    const texts = page.content.split(/\s+/);
    const heads = page.anchors.filter(({ element, text }) => /^h\d$/i.test(element) && text.trim())
      .sort((a, b) => a.location - b.location);
    const sections = page.sub_results.map((part) => {
      const index = heads.findIndex(({ id }) => part.url.endsWith(`#${id}`));
      const start = heads[index]?.location ?? 0;
      const text = texts.slice(start, heads[index + 1]?.location).join(" ").toLowerCase();
      const heading = part.title.toLowerCase();
      const said = words.filter((word) => text.includes(word) || heading.includes(word)).length;
      const named = words.filter((word) => heading.includes(word)).length;
      return {
        title: part.title, href: part.url, excerpt: part.excerpt, // marked up by Pagefind
        score: said + named / (words.length + 1),
      };
    });
    return sections.sort((a, b) => b.score - a.score);
  }

  /* A text as letters and digits only, without accents: Pagefind takes no notice of the rest. */
  const bare = (text) => text.normalize("NFD").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

  /* Whether a page has a word in some form. Where no page has it, Pagefind takes off letter after
     letter until something fits: of the pages with `-q` it says that they answer `qqzz`. */
  function hasWord(text, word) {
    const stem = bare(word);
    return text.includes(stem.slice(0, Math.max(3, Math.floor(0.6 * stem.length))));
  }

  async function findPages(typed, words) {
    const found = await pagefind.search(typed);
    const load = (from, to) => Promise.all(found.results.slice(from, to).map((r) => r.data()));
    // One word is where Pagefind says; for several it is asked for more, to choose among them.
    const most = words.length > 1 ? 2 * MOST_PAGES : MOST_PAGES;
    const pages = await load(0, most);
    // By its stem "ACS" is found in "accelerator", and few pages have it as it was typed.
    const alone = words.length === 1 && findWhole(words[0]);
    if (alone && !pages.some((page) => alone.test(page.content))) pages.push(...await load(most, 5 * MOST_PAGES));
    return pages.filter((page) => {
      const text = bare(`${page.meta.title} ${page.content}`);
      return words.some((word) => hasWord(text, word));
    });
  }

  async function askPagefind(typed) {
    const words = splitWords(typed);
    const alone = words.length === 1 && findWhole(words[0]);
    let pages = await findPages(typed, words);
    if (!pages.length && words.length > 1 && !typed.includes('"')) {
      // No page has them all: what has some of them.
      const found = (await Promise.all(words.map((word) => findPages(word, [word])))).flat();
      pages = [...new Map(found.map((page) => [page.url, page])).values()];
    }
    return pages.map((page) => {
      const sections = rankSections(page, words);
      const score = alone ? Number(alone.test(page.content)) : sections[0]?.score ?? 0;
      return { title: page.meta.title, href: page.url, score, sections: sections.slice(0, MOST_SECTIONS) };
    }).sort((a, b) => b.score - a.score).slice(0, MOST_PAGES);
  }

  // --- the small index ---

  function loadIndex() {
    return new Promise((resolve, reject) => {
      if (window.searchIndex) return resolve();
      const script = document.createElement("script");
      script.src = `${root}search-index.js`;
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error("the index cannot be read")));
      document.head.append(script);
    });
  }

  const escape = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

  /* A piece of a text around the first of some words, with all of them marked. */
  function cut(text, lower, words) {
    const at = Math.min(...words.map((word) => lower.indexOf(word)).filter((i) => i >= 0), text.length);
    const from = at > AROUND ? text.indexOf(" ", at - AROUND) + 1 : 0;
    const rest = text.slice(from, from + 2.5 * AROUND);
    const piece = from + rest.length < text.length ? rest.replace(/\s\S*$/, "") : rest;
    const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
    const marked = piece.split(new RegExp(`(${pattern})`, "gi"))
      .map((part, i) => (i % 2 ? `<mark>${escape(part)}</mark>` : escape(part))).join("");
    return `${from ? "… " : ""}${marked}${from + piece.length < text.length ? " …" : ""}`;
  }

  function askIndex(typed) {
    const words = splitWords(typed);
    // What is in quotes has to be there as it was typed.
    const phrases = [...typed.matchAll(/"([^"]+)"/g)].map((found) => found[1].trim().replace(/\s+/g, " ").toLowerCase());
    const pages = [];
    for (const [href, title, sections, weight] of window.searchIndex) {
      const parts = [];
      for (const [slug, heading, text] of sections) {
        const [lowHead, low] = [heading.toLowerCase(), text.toLowerCase()];
        const said = words.filter((word) => lowHead.includes(word) || low.includes(word)).length;
        if (!said || 2 * said < words.length) continue;
        if (!phrases.every((phrase) => lowHead.includes(phrase) || low.includes(phrase))) continue;
        // A section with more of the words comes first, whatever else it has.
        let score = 100 * said + (low.includes(words.join(" ")) ? 8 : 1);
        for (const word of words) {
          if (lowHead.includes(word)) score += 6;
          score += Math.min(low.split(word).length - 1, 5) / 5;
        }
        parts.push({ score, title: heading || title, href: `${root}${href}${slug ? `#${encodeURIComponent(slug)}` : ""}`, excerpt: cut(text, low, words) });
      }
      if (parts.length) {
        parts.sort((a, b) => b.score - a.score);
        pages.push({ title, href: `${root}${href}`, score: weight * (parts[0].score + parts.length / 50), sections: parts.slice(0, MOST_SECTIONS) });
      }
    }
    return pages.sort((a, b) => b.score - a.score).slice(0, MOST_PAGES);
  }

  // --- the dialog ---

  function build() {
    dialog = document.createElement("dialog");
    dialog.className = "search";
    dialog.setAttribute("aria-label", "Search the book");
    field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Search the book";
    field.autocomplete = "off";
    field.spellcheck = false;
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-label": "Search the book", "aria-expanded": "false",
      "aria-controls": "found.all", "aria-autocomplete": "list",
    })) field.setAttribute(name, value);
    state = document.createElement("p");
    state.className = "state";
    state.setAttribute("role", "status");
    list = document.createElement("div");
    list.id = "found.all";
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Results");
    const close = document.createElement("button");
    close.type = "button";
    close.className = "close";
    close.textContent = "Close";
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
    if (pagefind || window.searchIndex) return;
    try {
      if (location.protocol === "file:") throw new Error("a file may load no modules");
      pagefind = await openPagefind();
    } catch {
      try { await loadIndex(); } catch (error) { state.textContent = `No search: ${error.message}.`; return; }
    }
    if (field.value) search();
  }

  async function search() {
    const turn = ++asked;
    const typed = field.value.trim();
    if (!typed || !(pagefind || window.searchIndex)) { show([], ""); return; }
    const pages = pagefind ? await askPagefind(typed) : askIndex(typed);
    if (turn === asked) show(pages, typed);
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
    const count = (many, what) => `${many} ${what}${many === 1 ? "" : "s"}`;
    state.textContent = !typed ? "" : number ? `${count(number, "section")} in ${count(pages.length, "page")}` : `Nothing in the book says “${typed}”.`;
    if (number) choose(0);
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

  async function move(event) {
    if (event.key === "Escape") { // which else only empties the field, in some browsers
      event.preventDefault();
      dialog.close();
      return;
    }
    if (event.key === "Enter") {
      event.preventDefault();
      // What is shown may still be the answer to a part of what was typed.
      if (field.value.trim() !== answered) await search();
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

  opener?.addEventListener("click", open);
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
