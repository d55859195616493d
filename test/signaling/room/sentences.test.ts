import { expect, test } from 'vitest';
import { networkAdvice } from '../../../signaling/room/sentences.ts';

const OFF = { hasRelay: false, hasServerLinks: false, servesAll: false };

test('if the server forwards no frames, the advice names links through the server as a remedy besides a relay', () => {
  expect(networkAdvice(OFF)).toMatch(/no TURN relay \(--turn\)\. A relay .*\. So would .* \(--server-links on\)\./);
  expect(networkAdvice({ ...OFF, hasRelay: true })).toMatch(/relay of this server did not help.*\(--server-links on\)/);
});

test('if the server forwards frames, the advice says that links through the server did not help', () => {
  for (const hasRelay of [false, true]) {
    const advice = networkAdvice({ ...OFF, hasRelay, hasServerLinks: true });
    expect(advice).toMatch(/TURN relay.*Links through the server did not help: .* \/link/);
    expect(advice).not.toContain('--server-links');
  }
});

test('the advice is about the server alone if all links go through the server', () => {
  const advice = networkAdvice({ ...OFF, servesAll: true });
  expect(advice).toMatch(/--server-links only.*\/link/);
  expect(advice).not.toMatch(/TURN|isolation|hotspot/);
});
