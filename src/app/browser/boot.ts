/**
 * The entry point: loads the page. If a part of the page fails to load, it shows an error, and
 * reloads the page when the server answers. The texts of this error are in this file, because
 * `locales/` may fail to load, too.
 */
const MISSING = {
  en: [
    'A part of this page did not load. Check the connection. The page reloads when the server answers. You can also ',
    'reload it now',
    '.',
  ],
  zh: ['页面没有加载完整。请检查网络。服务器恢复响应后，页面会重新加载。也可以', '立即重新加载', '。'],
} as const;

/** Milliseconds between two requests by which a page that did not load finds its server. */
const RETRY_MS = 3000;

async function load(): Promise<void> {
  try {
    const { startPage } = await import('../main.tsx');
    await startPage();
  } catch (error) {
    console.error(error);
    showMissing();
    setInterval(() => void reloadIfServerAnswers(), RETRY_MS);
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
  link.href = '';
  link.textContent = reload;
  link.addEventListener('click', () => location.reload());
  const sentence = document.createElement('p');
  sentence.role = 'alert';
  sentence.append(before, link, after);
  document.querySelector('#app')!.replaceChildren(sentence);
}

void load();
