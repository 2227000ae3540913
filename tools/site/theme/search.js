// Search without a server: every word typed must begin a word of a page's name, title or key words. Works from file://.
(function () {
  var form = document.querySelector("form.search");
  if (!form || !window.MBPACK_PAGES) return;
  var input = form.querySelector("input"), list = form.querySelector("ol"), root = form.dataset.root;
  form.hidden = false;
  function rank(entry, words) {
    var name = entry[0].toLowerCase(), all = (entry[0] + " " + entry[2] + " " + entry[3]).toLowerCase(), points = 0;
    for (var i = 0; i < words.length; i++) {
      var at = all.indexOf(words[i]);
      if (at < 0) return -1;
      if (name === words[i]) points += 100;
      else if (name.indexOf(words[i]) === 0) points += 30;
      else if (name.indexOf(words[i]) > 0) points += 12;
      else if (at === 0 || /[^a-z0-9]/.test(all[at - 1])) points += 4;
      else points += 1;
    }
    return points - entry[0].length / 100;
  }
  function show() {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.textContent = "";
    list.hidden = !words.length;
    if (!words.length) return;
    var found = window.MBPACK_PAGES.map(function (entry) { return [rank(entry, words), entry]; })
      .filter(function (pair) { return pair[0] > -1; })
      .sort(function (a, b) { return b[0] - a[0]; }).slice(0, 12);
    found.forEach(function (pair) {
      var item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
      link.href = root + pair[1][1];
      link.textContent = pair[1][0];
      small.textContent = pair[1][2];
      link.appendChild(small);
      item.appendChild(link);
      list.appendChild(item);
    });
    if (!found.length) {
      var none = document.createElement("li");
      none.textContent = "Nothing found";
      list.appendChild(none);
    }
  }
  input.addEventListener("input", show);
  form.addEventListener("submit", function (event) {
    event.preventDefault();
    var first = list.querySelector("a");
    if (first) window.location.href = first.href;
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "/" && document.activeElement !== input && !/input|textarea/i.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === "Escape") { input.value = ""; show(); }
  });
  document.addEventListener("click", function (event) { if (!form.contains(event.target)) list.hidden = true; });
  input.addEventListener("focus", show);
})();
