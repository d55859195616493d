import { expect, test } from 'vitest';
import { answerLinkMeasurement, measureLinkSpeed } from '../../../src/engine/networkCheck/measureLink.ts';
import { emptyFrameHeader, encodeJsonFrame, FrameKind } from '../../../src/protocol/frame.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { systemClock, type Clock } from '../../../src/util/clock.ts';

/** A clock that advances with each look. */
function clockWith(msPerLook: number): Clock {
  let ms = 0;
  return { ...systemClock, now: () => (ms += msPerLook) };
}

test('both ends of a link learn its speed', async () => {
  const [a, b] = createMemoryLinkPair();
  const [asked, answered] = await Promise.all([measureLinkSpeed(a, clockWith(10)), answerLinkMeasurement(b)]);
  // Blocks of 1, 2, 4 .. 64 frames take 10 ms each, so the last one counts.
  expect(asked).toEqual({ roundTripMs: 10, bytesPerSecond: 64 * 64 * 1024 * 100 });
  expect(answered).toEqual(asked);
});

test('a slow link is measured with a single frame', async () => {
  const [a, b] = createMemoryLinkPair();
  const [asked] = await Promise.all([measureLinkSpeed(a, clockWith(800)), answerLinkMeasurement(b)]);
  expect(asked.bytesPerSecond).toBe((64 * 1024) / 0.8);
});

test('both ends reject if the link closes', async () => {
  const [a, b] = createMemoryLinkPair();
  const ends = [measureLinkSpeed(a, systemClock), answerLinkMeasurement(b)];
  b.close();
  await expect(Promise.all(ends.map((end) => end.catch((error: unknown) => String(error))))).resolves.toEqual([
    expect.stringMatching(/closed/),
    expect.stringMatching(/closed/),
  ]);
});

test('a result that is not a speed is rejected', async () => {
  const [a, b] = createMemoryLinkPair();
  const answered = answerLinkMeasurement(b);
  await a.send(encodeJsonFrame(emptyFrameHeader(FrameKind.FLOOD, 0), { bytesPerSecond: 'fast' }));
  await expect(answered).rejects.toThrow(/bytesPerSecond|roundTripMs|Invalid/);
});
