// The page is whole without this script, which only loads it again each minute and advice in place.
(() => {
  const say = (text) => { document.getElementById("said").textContent = text; };
  const load = async (address) => {
    const answer = await fetch(address);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok)
      throw new Error(page.querySelector("main p")?.textContent ?? "The portal sent an error.");
    // without a session the portal may send its own page to sign in
    if (!page.getElementById("pending")) throw new Error("Load the page again to sign in.");
    return page;
  };
  const renew = async () => {
    if (document.hidden) return;
    const address = new URL(location.href);
    address.searchParams.delete("advice");
    try {
      const page = await load(address);
      for (const old of document.querySelectorAll(".advice.loaded"))
        page.getElementById(old.id)?.replaceWith(old);
      const focused = document.activeElement?.closest("main a")?.getAttribute("href");
      document.querySelector("main").replaceWith(page.querySelector("main"));
      if (focused) document.querySelector(`main a[href="${CSS.escape(focused)}"]`)?.focus();
      say("");
    } catch (error) {
      say("The page could not be loaded again: it shows what was known before.");
    }
  };
  const advise = async (link) => {
    const place = link.parentElement;
    say("Simulating other requests of the job; this takes some seconds.");
    try {
      const found = (await load(link.href)).getElementById(place.id);
      if (!found) throw new Error("The job does not wait any more.");
      found.classList.add("loaded");
      found.tabIndex = -1;
      place.replaceWith(found);
      found.focus();
      say("");
    } catch (error) {
      say(error.message);
    }
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".advice a");
    if (!link) return;
    event.preventDefault();
    advise(link);
  });
  setInterval(renew, 60000);
})();
