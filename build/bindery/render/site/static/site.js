/* What every page does beyond its text: the theme, the menu that remembers its place, the section
   that is being read, links of headings, code that can be copied, the report of an error. */

"use strict";

(() => {
  const page = document.documentElement;
  const remember = (store, key, value) => {
    try { store.setItem(key, value); } catch { /* a browser that remembers nothing */ }
  };
  const recall = (store, key) => {
    try { return store.getItem(key); } catch { return null; }
  };

  // --- theme: as the system, light, dark ---

  const THEMES = ["", "light", "dark"];
  const NAMES = { "": "as the system", light: "light", dark: "dark" };
  const button = document.querySelector("button.theme");

  function showTheme(theme) {
    if (theme) page.dataset.theme = theme;
    else delete page.dataset.theme;
    button?.setAttribute("aria-label", `Theme: ${NAMES[theme]}`);
    if (button) button.title = button.getAttribute("aria-label");
    // Pictures that come in two are chosen by the system's theme; a chosen one overrules it.
    for (const source of document.querySelectorAll("picture source[media]")) {
      source.dataset.media ??= source.media;
      source.media = theme
        ? source.dataset.media.replace(/\(\s*prefers-color-scheme\s*:\s*(\w+)\s*\)/g,
          (_, wanted) => (wanted === theme ? "all" : "not all"))
        : source.dataset.media;
    }
  }

  showTheme(page.dataset.theme ?? "");
  button?.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(page.dataset.theme ?? "") + 1) % THEMES.length];
    remember(localStorage, "theme", next);
    showTheme(next);
  });

  // --- the menu stays where it was ---

  const menu = document.querySelector("header.book nav");
  if (menu) {
    const place = recall(sessionStorage, "menu");
    if (place !== null) menu.scrollTop = Number(place);
    const here = menu.querySelector("[aria-current]");
    if (here) {
      const room = menu.getBoundingClientRect();
      const box = here.getBoundingClientRect();
      if (box.top < room.top || box.bottom > room.bottom) {
        menu.scrollTop += box.top - room.top - room.height / 3;
      }
    }
    addEventListener("pagehide", () => remember(sessionStorage, "menu", menu.scrollTop));
  }

  // --- the section that is being read ---

  const entries = new Map();
  for (const link of document.querySelectorAll("nav.sections a")) {
    const heading = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (heading) entries.set(heading, link);
  }
  const headings = [...entries.keys()];
  let read = null;

  function markSection() {
    const line = innerHeight / 4;
    let now = headings.findLast((heading) => heading.getBoundingClientRect().top <= line);
    if (innerHeight + scrollY >= page.scrollHeight - 2 && scrollY > 0) now = headings.at(-1);
    if (now === read) return;
    entries.get(read)?.removeAttribute("aria-current");
    read = now;
    const link = entries.get(read);
    link?.setAttribute("aria-current", "true");
    const list = link?.closest("nav");
    if (list && list.scrollHeight > list.clientHeight) {
      const [box, room] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
      if (box.top < room.top || box.bottom > room.bottom) {
        list.scrollTop += box.top - room.top - room.height / 2;
      }
    }
  }

  if (headings.length) {
    let waits = false;
    addEventListener("scroll", () => {
      if (waits) return;
      waits = true;
      requestAnimationFrame(() => { waits = false; markSection(); });
    }, { passive: true });
    markSection();
  }

  // --- a link on each heading ---

  for (const heading of document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)[id]")) {
    const link = document.createElement("a");
    link.className = "here";
    link.href = `#${encodeURIComponent(heading.id)}`;
    link.setAttribute("aria-label", "Link to this section");
    heading.append(link);
  }

  // --- copying ---

  // What a terminal shows before a command; lines without it are the command's answer.
  const PROMPTS = {
    console: /^(?:\$|#|>) /, "shell-session": /^(?:\$|#|>) /, pycon: /^(?:>>>|\.\.\.) ?/,
  };
  const ANY_PROMPT = /^(?:\$|>>>) /;

  function readCode(code) {
    const copy = code.cloneNode(true);
    for (const mark of copy.querySelectorAll(".wrap")) mark.remove();
    const text = copy.textContent.replace(/\n$/, "");
    const language = /(?:^| )language-(\S+)/.exec(code.className)?.[1] ?? "";
    const lines = text.split("\n");
    const prompt = PROMPTS[language] ?? (ANY_PROMPT.test(lines[0]) ? ANY_PROMPT : null);
    if (!prompt || !lines.some((line) => prompt.test(line))) return text;
    // A command that goes on in the next line ends in a backslash.
    const kept = [];
    let goesOn = false;
    for (const line of lines) {
      if (prompt.test(line) || goesOn) {
        kept.push(line.replace(prompt, ""));
        goesOn = line.endsWith("\\");
      }
    }
    return kept.join("\n");
  }

  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // pages opened as files may not, in some browsers
      const field = document.createElement("textarea");
      field.value = text;
      field.className = "offstage";
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
  }

  const said = document.createElement("p");
  said.className = "offstage";
  said.setAttribute("role", "status");
  document.body.append(said);

  function makeCopyButton(label, read) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "copy";
    copy.textContent = label;
    copy.addEventListener("click", async () => {
      const focused = document.activeElement;
      await copyText(read());
      focused?.focus();
      copy.textContent = "Copied";
      said.textContent = "Copied";
      setTimeout(() => { copy.textContent = label; said.textContent = ""; }, 1500);
    });
    return copy;
  }
  window.makeCopyButton = makeCopyButton; // tables offer the same

  for (const code of document.querySelectorAll("article pre > code")) {
    const frame = document.createElement("div");
    frame.className = "code";
    const block = code.parentElement;
    block.replaceWith(frame);
    frame.append(block, makeCopyButton("Copy", () => readCode(code)));
  }

  // --- an error is reported with its section, and with the words that are selected ---

  const report = document.querySelector("a.report");
  report?.addEventListener("click", () => {
    const address = new URL(report.dataset.plain ??= report.href);
    const lines = [address.searchParams.get("body").trimEnd()];
    const selected = getSelection().toString().trim();
    const from = getSelection().anchorNode;
    const all = [...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)[id]")];
    const section = selected && from
      ? all.findLast((h) => h.compareDocumentPosition(from) & Node.DOCUMENT_POSITION_FOLLOWING)
      : read;
    if (section) lines.push(`Section: #${section.id}`);
    if (selected) {
      lines.push("", ...selected.slice(0, 1000).split("\n").map((line) => `> ${line}`));
    }
    address.searchParams.set("body", `${lines.join("\n")}\n\n`);
    report.href = address;
  });
})();
