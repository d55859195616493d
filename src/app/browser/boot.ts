/**
 * The entry point: loads the page. If a part of the page fails to load, it shows an error and tries
 * again. The texts of this error are in this file, because `locales/` may fail to load, too.
 */
const MISSING = {
  en: [
    'A part of this page did not load. Check the connection. The page will try again by itself. You can also ',
    'reload it now',
    '.',
  ],
  zh: ['页面没有加载完整。请检查网络。页面会自动重试。也可以', '立即重新加载', '。'],
} as const;

/** Milliseconds until the page tries again. */
const RETRY_MS = 3000;
/** The same time for a page that was reloaded, because its part may be missing for long. */
const RELOADED_RETRY_MS = 60_000;

async function load(): Promise<void> {
  try {
    const { startPage } = await import('../main.tsx');
    await startPage();
  } catch (error) {
    console.error(error);
    showMissing();
    const [navigation] = performance.getEntriesByType('navigation');
    const isReloaded = (navigation as PerformanceNavigationTiming | undefined)?.type === 'reload';
    setInterval(() => void reloadIfServerAnswers(), isReloaded ? RELOADED_RETRY_MS : RETRY_MS);
  }
}

/** A reload without an answer of the server would replace the error by one of the browser. */
async function reloadIfServerAnswers(): Promise<void> {
  const request = { method: 'HEAD', cache: 'no-store', signal: AbortSignal.timeout(RETRY_MS) } as const;
  const answer = await fetch(location.pathname, request).catch(() => null);
  if (answer?.ok) location.reload();
}

function showMissing(): void {
  const [before, reload, after] = navigator.language.startsWith('zh') ? MISSING.zh : MISSING.en;
  const link = document.createElement('a');
  link.href = location.href;
  link.textContent = reload;
  link.addEventListener('click', (event) => {
    event.preventDefault();
    location.reload();
  });
  const sentence = document.createElement('p');
  sentence.role = 'alert';
  // The styles may be missing, too.
  sentence.style.margin = '2rem 1rem';
  sentence.append(before, link, after);
  document.querySelector('#app')!.replaceChildren(sentence);
}

void load();
