/**
 * Checks every page in Chinese in a real tab: no English words are left, except well-known names.
 */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DIST } from '../../../launcher/build.ts';
import { launchBrowser } from '../../../launcher/browser/browser.ts';
import { startSignaling, type SignalingServer } from '../../../signaling/index.ts';

/**
 * Names of things, units and people are the same in all languages. Technical terms are shown
 * together with their translation, so they are allowed, too.
 */
const NAMES = new RegExp(
  [
    ...['peergrad', 'English', 'http\\S*', 'localhost\\S*', 'google swiftshader', 'simulated', 'rank', 'Rank', 'token'],
    ...[
      'WebGPU',
      'PNG',
      'WebGL',
      'WebAssembly',
      'WebRTC',
      'PowerSGD',
      'int8',
      'GPU',
      'CPU',
      'VPN',
      'Chrome',
      'Edge',
      'Safari',
      'Firefox',
      'https?',
    ],
    ...[
      'digits',
      'mnist',
      'MNIST',
      'mlp',
      'cnn',
      'gpt',
      'SGD',
      'Nesterov',
      'AdamW?',
      'GPT',
      'GPipe',
      'DiLoCo',
      'SparseLoCo',
      'IDX',
      'CSV',
      'Parquet',
      'xlsx',
      'UTF-(8|16)',
      'GBK',
      'Big5',
      'Shift_JIS',
      'EUC-KR',
      'windows-125\\d',
      'JSON',
      'Perfetto',
      'safetensors',
      'TensorFlow\\.js',
      'Keras',
      'zip',
      'weights\\.h5',
      'Huber',
    ],
    ...[
      'all-reduce',
      'reduce-scatter',
      'all-gather',
      'overlapped',
      'DDP',
      'GPipe',
      'GPT-2',
      '1F1B',
      'R²',
      'generation',
      'epochs?',
      'world size',
      'webgpu',
      'chrome',
      'tracing',
      'ui',
    ],
    ...['Ada', 'Alan', 'Barbara', 'Claude', 'Donald', 'Edsger', 'perfetto'],
    ...['Home', 'End', 'Esc', 'K7F', 'QX', 'peergrad-flight-rank', 'json', 'dev', 'com', 'flight'],
  ].join('|'),
  'g',
);

let browser: Browser;
let server: SignalingServer;
beforeAll(async () => {
  [server, browser] = await Promise.all([startSignaling({ dist: DIST }), launchBrowser({ backend: 'wasm' })]);
}, 120_000);
afterAll(async () => {
  await browser.close();
  await server.close();
});

/** Returns the English words of three letters and more in texts, labels and placeholders. */
async function englishOn(page: Page): Promise<string[]> {
  const texts = await page.evaluate(() => {
    const found = [...document.querySelectorAll('body *')].flatMap((element) =>
      element.closest('[lang=en]') === null
        ? ['aria-label', 'title', 'placeholder', 'aria-valuetext'].map((name) => element.getAttribute(name) ?? '')
        : [],
    );
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() !== null) {
      const parent = walker.currentNode.parentElement;
      if (parent?.closest('[lang=en], script, noscript, style') === null)
        found.push(walker.currentNode.nodeValue ?? '');
    }
    return found;
  });
  return [...new Set(texts)].filter((text) => /[A-Za-z]{3}/.test(text.replaceAll(NAMES, '')));
}

test.each([
  ['', '用许多标签页'],
  ['new', '新建房间'],
  ['new?job=table', '要预测的列'],
  ['new?job=gpt&layers=24&heads=16&width=1024&context=1024&strategy=pipeline', '模型分在 2 个标签页上'],
  ['K7F-3QX', '你正在加入'],
  ['lesson', '1 页'],
  ['lesson?page=11', '11'],
  ['pipeline', '1 页'],
  ['pipeline?page=5', '你是'],
  ['pipeline?page=7', '7'],
  ['recording', '飞行记录'],
  ['simulated?ranks=6', '时间线'],
])('the Chinese page #%s contains no English words', async (hash, shown) => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(`http://localhost:${server.port}/#${hash}${hash.includes('?') ? '&' : '?'}lang=zh`);
  await page.getByText(shown).first().waitFor();
  await page.getByRole('button', { name: '它如何工作' }).click();
  await page.getByRole('dialog').waitFor();
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('zh-Hans');
  // After the second step, all parts of a run are shown.
  if (hash.startsWith('simulated')) await page.getByRole('table').first().waitFor({ state: 'attached' });
  expect(await englishOn(page)).toEqual([]);
  await page.close();
});
