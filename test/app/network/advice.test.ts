import { expect, test } from 'vitest';
import { networkAdviceFor, slowestServerLinkRate } from '../../../src/app/network/advice.ts';
import {
  NETWORK_ADVICE,
  type NetworkAdvice,
  type NetworkReport,
  type NetworkCheckPairReport,
} from '../../../src/protocol/networkCheck.ts';

const running = { verdict: 'running' } as const;
const untried = { verdict: 'not-tried', about: 'none' } as const;
const speed = { roundTripMs: 2, bytesPerSecond: 12e6 };

const direct = { verdict: 'works', about: 'direct', ...speed } as const;
const relayed = { verdict: 'works', about: 'relayed', ...speed } as const;
const noChannel = { verdict: 'fails', about: 'no-connection' } as const;
const onlyServer = { verdict: 'not-tried', about: 'only-server' } as const;
const noWebRtc = { verdict: 'not-tried', about: 'no-webrtc' } as const;
const served = { verdict: 'works', about: 'encrypted', ...speed } as const;
const noLink = { verdict: 'fails', about: 'no-link', message: 'The server could not be reached.' } as const;
const off = { verdict: 'not-tried', about: 'off' } as const;

function reportOf(pairs: readonly NetworkCheckPairReport[], changes: Partial<NetworkReport> = {}): NetworkReport {
  return {
    page: { verdict: 'works', about: 'secure' },
    socket: { verdict: 'works', about: 'answered', roundTripMs: 1 },
    addresses: { verdict: 'works', about: 'names' },
    stun: untried,
    turn: untried,
    pairs,
    ...changes,
  };
}

const pair = (
  channel: NetworkCheckPairReport['direct'],
  server: NetworkCheckPairReport['server'],
  changes: Partial<NetworkCheckPairReport> = {},
): NetworkCheckPairReport => ({ name: 'ada', isSameBrowser: false, direct: channel, server, ...changes });

const here = { isSameBrowser: true };

test.each<[NetworkAdvice, readonly NetworkCheckPairReport[], Partial<NetworkReport>?]>([
  ['wait', [], { socket: running }],
  ['wait', [], { stun: running }],
  ['wait', [pair(direct, running)]],
  ['unreachable', [], { socket: { verdict: 'fails', about: 'no-answer' }, addresses: running }],
  ['refused', [], { socket: { verdict: 'fails', about: 'refused' } }],
  ['alone', []],
  ['direct', [pair(direct, served)]],
  ['direct', [pair(direct, off), pair(direct, noLink)]],
  ['direct', [pair(noChannel, served, here), pair(direct, served)]],
  ['relayed', [pair(direct, served), pair(relayed, served)]],
  ['mixed', [pair(direct, served), pair(noChannel, served)]],
  ['isolated', [pair(noChannel, served)]],
  ['isolated', [pair(noWebRtc, served)]],
  ['only-server', [pair(onlyServer, served)]],
  ['one-browser', [pair(direct, served, here)]],
  ['one-browser-only', [pair(direct, off, here)]],
  ['off', [pair(noChannel, off), pair(direct, off)]],
  ['none', [pair(noChannel, noLink), pair(direct, served)]],
  ['none', [pair(onlyServer, noLink)]],
])('%s is the advice for %j %j', (advice, pairs, changes) => {
  expect(networkAdviceFor(reportOf(pairs, changes))).toBe(advice);
});

test('training works if every pair of devices has a link', () => {
  const works = (Object.keys(NETWORK_ADVICE) as NetworkAdvice[]).filter((advice) => NETWORK_ADVICE[advice] === true);
  expect(works).toEqual(['direct', 'relayed', 'mixed', 'isolated', 'only-server', 'one-browser']);
});

test('the rate through the server is that of the slowest pair', () => {
  expect(slowestServerLinkRate(reportOf([pair(direct, off)]))).toBe(null);
  expect(
    slowestServerLinkRate(reportOf([pair(direct, served), pair(direct, { ...served, bytesPerSecond: 3e6 })])),
  ).toBe(3e6);
});
