/* What every page does beyond its text: the theme, the menu and its parts, keys to turn pages, the
   section being read, links of headings, code to copy or wrap, variants of code as tabs, large
   figures, the report of an error. */

"use strict";

// Words in the language of the book, which the build has put above where it is not English.
window.say = (text, values = {}) => (window.bookWords?.[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => values[name]);

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
  const NAMES = { "": say("Theme: system"), light: say("Theme: light"), dark: say("Theme: dark") };
  const button = document.querySelector("button.theme");

  function showTheme(theme) {
    if (theme) page.dataset.theme = theme;
    else delete page.dataset.theme;
    button?.setAttribute("aria-label", NAMES[theme]);
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

  // --- the menu shows the chapter that is open, and fills a part when it is opened ---

  const header = document.querySelector("header.book");
  const menu = header.querySelector("nav");
  const here = menu.querySelector("[aria-current]");
  if (here) {
    const [room, box] = [menu.getBoundingClientRect(), here.getBoundingClientRect()];
    if (box.bottom > room.bottom) menu.scrollTop += box.top - room.top - room.height / 3;
  }

  let chapters = null;
  const loadChapters = () => chapters ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${header.dataset.root}menu.js`;
    script.addEventListener("load", () => resolve(window.bookMenu));
    document.head.append(script);
  });

  async function fillPart(part) {
    const listed = (await loadChapters())[Number(part.dataset.part)];
    const entries = listed.map(([place, title, number]) => {
      const [item, link] = [document.createElement("li"), document.createElement("a")];
      link.href = header.dataset.root + place;
      link.append(title);
      if (number) {
        const mark = document.createElement("small");
        mark.textContent = `${number} `;
        link.prepend(mark);
      }
      if (link.href === location.href.replace(/#.*/, "")) link.setAttribute("aria-current", "page");
      item.append(link);
      return item;
    });
    part.querySelector("ul").replaceChildren(...entries);
    delete part.dataset.part;
  }

  for (const part of menu.querySelectorAll("details[data-part]")) {
    part.addEventListener("toggle", () => { if (part.open && part.dataset.part) fillPart(part); });
  }

  // --- the arrow keys turn to the previous and the next chapter ---

  addEventListener("keydown", (event) => {
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    if (!rel || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    // Where the keys move a cursor or scroll sideways they go on doing so.
    if (document.activeElement !== document.body && document.activeElement.closest("input, select, textarea, pre, .table, dialog")) return;
    const address = document.querySelector(`link[rel="${rel}"]`)?.href;
    if (address) location.href = address;
  });

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
    link.setAttribute("aria-label", say("Link to this section"));
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
      copy.textContent = said.textContent = say("Copied");
      setTimeout(() => { copy.textContent = label; said.textContent = ""; }, 1500);
    });
    return copy;
  }
  window.makeCopyButton = makeCopyButton; // tables offer the same

  /* A line that is broken gets a mark where it goes on: each is an element, with its colours. */
  function makeWrapButton(frame, code) {
    const whole = (line) => line.replace(/(?<=^|\s|\s<\/span>)--?\w[\w-]*/g, '<span class="word">$&</span>'); // options
    code.innerHTML = code.innerHTML.split("\n").map((line) => line && `<span class="line">${whole(line)}</span>`).join("\n");
    const wrap = document.createElement("button");
    wrap.type = "button";
    wrap.className = "copy";
    wrap.textContent = say("Wrap");
    wrap.setAttribute("aria-pressed", "false");
    wrap.addEventListener("click", () => {
      wrap.setAttribute("aria-pressed", String(frame.classList.toggle("wrapped")));
    });
    return wrap;
  }

  // All are measured before one is changed.
  const blocks = [...document.querySelectorAll("article pre > code")]
    .map((code) => [code, code.parentElement.scrollWidth > code.parentElement.clientWidth]);
  for (const [code, isWide] of blocks) { // on a small screen lines are broken from the beginning
    const [frame, tools] = [document.createElement("div"), document.createElement("div")];
    frame.className = "code";
    tools.className = "code-tools";
    const block = code.parentElement;
    block.replaceWith(frame);
    frame.append(tools, block);
    if (isWide) tools.append(makeWrapButton(frame, code));
    if (isWide && innerWidth < 768) tools.firstChild.click();
    tools.append(makeCopyButton(say("Copy"), () => readCode(code)));
  }

  // --- a list whose every item is a name and a block of code is shown as tabs ---

  function isVariant(item) {
    const code = item.lastElementChild;
    if (!code?.matches(".code") || item.children.length > 2) return false;
    const name = item.textContent.replace(code.textContent, "").trim();
    return name.length > 0 && name.length < 40;
  }

  function makeTabs(list, group) {
    const items = [...list.children];
    const bar = document.createElement("div");
    bar.className = "tabs";
    bar.setAttribute("role", "tablist");
    const tabs = items.map((item, index) => {
      const code = item.lastElementChild;
      code.remove();
      const tab = document.createElement("button");
      tab.type = "button";
      tab.textContent = item.textContent.trim().replace(/:$/, "");
      tab.setAttribute("role", "tab");
      tab.id = `tab.${group}.${index}`;
      code.id = `panel.${group}.${index}`;
      tab.setAttribute("aria-controls", code.id);
      code.setAttribute("role", "tabpanel");
      code.setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("click", () => { remember(localStorage, "variant", tab.textContent); choose(index); });
      return { tab, code };
    });
    function choose(chosen) {
      tabs.forEach(({ tab, code }, index) => {
        tab.setAttribute("aria-selected", String(index === chosen));
        tab.tabIndex = index === chosen ? 0 : -1;
        code.hidden = index !== chosen;
      });
    }
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const now = tabs.findIndex(({ tab }) => tab === document.activeElement);
      const { tab } = tabs[(now + step + tabs.length) % tabs.length];
      tab.click();
      tab.focus();
    });
    bar.append(...tabs.map(({ tab }) => tab));
    list.replaceWith(bar, ...tabs.map(({ code }) => code));
    const known = tabs.findIndex(({ tab }) => tab.textContent === recall(localStorage, "variant"));
    choose(Math.max(known, 0));
  }

  [...document.querySelectorAll("article ul:not(li ul)")]
    .filter((list) => list.children.length > 1 && [...list.children].every(isVariant))
    .forEach(makeTabs);

  // --- a figure opens large ---

  for (const image of document.querySelectorAll("article .figure img, article p > img")) {
    if (image.closest("a")) continue;
    image.addEventListener("click", () => {
      const dialog = document.createElement("dialog");
      dialog.className = "large";
      dialog.append(image.cloneNode());
      dialog.firstElementChild.removeAttribute("id");
      dialog.addEventListener("click", () => dialog.close());
      dialog.addEventListener("close", () => dialog.remove());
      document.body.append(dialog);
      dialog.showModal();
    });
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
