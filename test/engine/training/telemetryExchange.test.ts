import { expect, test } from 'vitest';
import { exchangeTelemetry, type OwnTelemetry } from '../../../src/engine/training/telemetry/telemetryExchange.ts';
import { runWorld } from '../../../src/testing/index.ts';

const HASHES = ['0000000000000001', 'ffffffff00000000', '89abcdef01234567'];

const statisticsOf = (rank: number) => ({
  ...{ dataMs: 0, computeMs: rank + 0.5, communicateMs: 2, stepMs: 3 },
  ...{ gradientBytesSent: 2 ** 40 + rank, gradientBytesReceived: 5, otherBytesSent: 6, memoryBytes: 7 },
  // Rank 1 does not compute on WebGPU.
  ...(rank !== 1 && { commands: { dispatches: 145, submits: rank + 12 } }),
});

const ownOf = (rank: number): OwnTelemetry => ({
  ...{ isHidden: rank === 1, waitMs: rank, span: { begin: rank, end: rank + 1 } },
  right: rank === 2 ? null : { route: 'direct', roundTripMs: null, connections: 4, bytesSent: 7, bytesReceived: 8 },
  chunks: rank === 0 ? null : { sentAt: 1, receivedAt: 2 },
  lanes: [],
});

test('one collective gives all ranks the state hashes and the telemetry of all ranks', async () => {
  const told = await runWorld(3, async (group) => {
    const { rank } = group;
    const all = await exchangeTelemetry(group, HASHES[rank]!, statisticsOf(rank), ownOf(rank), {
      steps: 20,
      segments: 24,
    });
    expect(group.flightRecording.records).toHaveLength(1);
    return all;
  });
  for (const all of told) {
    expect(all).toEqual(
      HASHES.map((hash, rank) => ({ hash, ...ownOf(rank), statistics: { rank, ...statisticsOf(rank) } })),
    );
  }
});
