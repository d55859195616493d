/**
 * The entry point: loads the page, or shows an error if a part of the page fails to load. The texts
 * of this error are in this file, because `locales/` may fail to load, too.
 */
const MISSING = {
  en: ['A part of this page did not load. Check the connection, then ', 'reload it', '.'],
  zh: ['页面没有加载完整。请检查网络，然后', '重新加载', '。'],
} as const;

async function load(): Promise<void> {
  try {
    const { startPage } = await import('../main.tsx');
    await startPage();
  } catch (error) {
    console.error(error);
    showMissing();
  }
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
