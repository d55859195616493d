/** The rows of the page `#network`, in both languages. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { browserAndSystemName } from '../../../src/app/network/deviceName.ts';
import { networkAdviceText, networkCheckRowsOf } from '../../../src/app/network/rows.ts';
import { chooseUiLanguage } from '../../../src/app/locales/index.ts';
import { NETWORK_ADVICE, type NetworkAdvice, type NetworkReport } from '../../../src/protocol/networkCheck.ts';

beforeEach(() => vi.stubGlobal('document', { documentElement: {} }));
afterEach(async () => {
  await chooseUiLanguage('en');
  vi.unstubAllGlobals();
});

const report: NetworkReport = {
  page: { verdict: 'works', about: 'insecure' },
  socket: { verdict: 'works', about: 'answered', roundTripMs: 3.2 },
  addresses: { verdict: 'works', about: 'names' },
  stun: { verdict: 'not-tried', about: 'none' },
  turn: { verdict: 'fails', about: 'no-answer' },
  pairs: [
    {
      name: 'Chrome, Mac',
      isSameBrowser: false,
      direct: { verdict: 'fails', about: 'no-connection' },
      server: { verdict: 'works', about: 'clear', roundTripMs: 5, bytesPerSecond: 12.4e6 },
    },
    {
      name: 'Chrome, Linux',
      isSameBrowser: true,
      direct: { verdict: 'running' },
      server: { verdict: 'fails', about: 'no-link', message: 'The server has no more links.' },
    },
  ],
};

test('each check has a row with its result, its speed and what it means', () => {
  expect(networkCheckRowsOf(report).map(({ name, result, note }) => [name, result, note.split('. ')[0]])).toEqual([
    ['Page', 'works', 'Plain http: tabs cannot use WebGPU, and links through the server are not encrypted'],
    ['WebSocket to the server', 'works, round trip 3.2 ms', ''],
    [
      'Local addresses',
      'works',
      'The browser hides addresses behind names, and devices find these names only by multicast.',
    ],
    ['STUN', 'not tried', 'The signaling server names no such server'],
    ['TURN', 'fails', 'The server does not answer this device'],
    ['Data channel to Chrome, Mac', 'fails', 'The two devices cannot reach each other directly'],
    [
      'Link through the server to Chrome, Mac',
      'works, 12.4 MB/s, round trip 5.0 ms',
      'Not encrypted, because one of the two pages is open over plain http.',
    ],
    ['Data channel to Chrome, Linux (same browser)', 'checking …', ''],
    ['Link through the server to Chrome, Linux (same browser)', 'fails', 'The server did not link the two devices'],
  ]);
  expect(networkCheckRowsOf(report).at(-1)!.note).toContain('(The server has no more links.)');
});

test('without another tab, neither link is tried', () => {
  expect(networkCheckRowsOf({ ...report, pairs: [] }).slice(-2)).toEqual(
    ['Data channel to another device', 'Link through the server to another device'].map((name) => ({
      name,
      verdict: 'not-tried',
      result: 'not tried',
      note: 'No other device shows this page now.',
    })),
  );
});

test.each(['en', 'zh'] as const)(
  'in %s, each advice is a sentence, and names the rate through the server',
  async (language) => {
    await chooseUiLanguage(language);
    const advice = Object.keys(NETWORK_ADVICE) as NetworkAdvice[];
    const texts = advice.map((one) => networkAdviceText(one, report));
    expect(new Set(texts).size).toBe(texts.length);
    expect(advice.filter((_, i) => texts[i]!.includes('12.4 MB/s'))).toEqual([
      'mixed',
      'isolated',
      'only-server',
      'one-browser',
    ]);
  },
);

test.each([
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0',
    'Edge, Windows',
  ],
  [
    'Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
    'Chrome, ChromeOS',
  ],
  [
    'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36',
    'Chrome, Android',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15',
    'Safari, Mac',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1',
    'Safari, iPhone',
  ],
  ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox, Linux'],
  ['curl/8', 'browser'],
])('a device is named by its browser and system: %s', (userAgent, name) => {
  expect(browserAndSystemName(userAgent)).toBe(name);
});
