/* What changed since an edition: with `?from=COMMIT` only what is newer than that commit is shown. */

"use strict";

(() => {
  const from = new URLSearchParams(location.search).get("from") ?? "";
  if (!from) return;
  const show = (number) => number.toLocaleString(document.documentElement.lang);
  const said = document.querySelector("p.since");
  said.hidden = false;
  const commits = [...document.querySelectorAll(".commits li")];
  const isCommit = /^[0-9a-f]{7,64}$/.test(from);
  const own = isCommit
    ? commits.findIndex((item) => {
        const id = item.id.slice("since-".length);
        return id.startsWith(from) || from.startsWith(id);
      })
    : commits.findIndex((item) => item.querySelector(`[id="since-${CSS.escape(from)}"]`));
  if (own < 0) {
    said.textContent = say("This site's history has no commit {commit}, so all changes are shown. Your copy may be newer, or from another source.", { commit: from });
    return;
  }
  for (const item of commits.slice(own)) item.hidden = true;
  for (const subject of document.querySelectorAll(".subject")) {
    const all = JSON.parse(subject.dataset.changes);
    const left = all.filter(([place]) => place < own);
    subject.hidden = !left.length;
    if (!left.length || left.length === all.length) continue;
    const [added, removed, rows] = [1, 2, 3].map((column) => left.reduce((sum, change) => sum + change[column], 0));
    const words = [added && `+${show(added)}`, removed && `\u2212${show(removed)}`].filter(Boolean);
    const size = [words.length && say("{n} words", { n: words.join(" ") }), rows && say("{n} table rows", { n: show(rows) })];
    subject.querySelector(".size").textContent = size.filter(Boolean).join(", ");
  }
  for (const folded of document.querySelectorAll(".commits")) {
    const left = folded.querySelectorAll("li:not([hidden])").length;
    folded.closest(".edition").hidden = !left;
    folded.querySelector("summary").textContent = say(left === 1 ? "{n} commit" : "{n} commits", { n: left });
    folded.open = true;
  }
  const day = commits[own].querySelector("time").textContent;
  const all = document.createElement("a");
  all.href = location.pathname;
  all.textContent = say("Show all changes");
  const told = own ? "Changes since your edition of {day} ({commit}):"
    : "Nothing has changed since your edition of {day} ({commit}).";
  said.replaceChildren(say(told, { day, commit: from }), " ", all);
  if (location.hash.startsWith("#since-")) scrollTo(0, 0);
})();
