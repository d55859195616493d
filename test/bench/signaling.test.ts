/**
 * Runs the benchmark of the signaling server with few clients, and checks that it reports its
 * results.
 */
import { expect, test } from 'vitest';
import { runBench } from '../../bench/command/cli.ts';

async function bench(line: string): Promise<{ code: number; out: string[]; err: string }> {
  const [out, err]: [string[], string[]] = [[], []];
  const { signal } = new AbortController();
  const io = { out: (l: string) => void out.push(l), err: (l: string) => void err.push(l), terminal: null, signal };
  return { code: await runBench(line.split(' '), io), out, err: err.join('\n') };
}

test('the benchmark connects clients, relays signals, and lets many clients join together', async () => {
  const { code, out, err } = await bench('signaling --clients 70 --storm 65 --json');
  expect(code, err).toBe(0);
  const result = JSON.parse(out.at(-1)!) as Record<string, unknown>;
  expect(result).toMatchObject({ clients: 70, joinStorm: { clients: 65, failures: 0 } });
  const { median, p99 } = result['relayMs'] as { median: number; p99: number };
  expect(median).toBeGreaterThan(0);
  expect(p99).toBeGreaterThanOrEqual(median);
  expect(result['bytesPerConnection']).toBeTypeOf('number');
});

test.each(['signaling --clients 0', 'signaling --clients many', 'signaling --storm 20001'])(
  'the benchmark command exits with 2 for bad arguments: %s',
  async (line) => {
    const { code, out, err } = await bench(line);
    expect(code).toBe(2);
    expect(out).toEqual([]);
    expect(err).toMatch(/whole number from 1 to 20000/);
  },
);
