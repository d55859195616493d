import { describe, expect, test } from 'vitest';
import { layoutRing, pointAtAngle, indexOfWayAt, wayBetweenRanks } from '../../../src/app/ring/geometry.ts';
import {
  nextPlaybackSpeed,
  playbackSpeedForAddress,
  playbackSpeedFromQuery,
  formatPlaybackSpeed,
} from '../../../src/app/ring/player/speed.ts';

describe('the speed of the player', () => {
  test('changes by factors of two, between 1/8 and 8', () => {
    const up = [0.125];
    while (up.at(-1)! < 8) up.push(nextPlaybackSpeed(up.at(-1)!, 1));
    expect(up).toEqual([0.125, 0.25, 0.5, 1, 2, 4, 8]);
    expect(nextPlaybackSpeed(8, 1)).toBe(8);
    expect(nextPlaybackSpeed(0.125, -1)).toBe(0.125);
    expect([nextPlaybackSpeed(3, 1), nextPlaybackSpeed(3, -1)]).toEqual([4, 2]);
  });

  test('is read from the address; an invalid speed gives the default, and too high a speed gives the maximum', () => {
    const asked = ['', 'speed=2', 'speed=0.3', 'speed=1e9', 'speed=0', 'speed=-2', 'speed=fast'];
    expect(asked.map((query) => playbackSpeedFromQuery(new URLSearchParams(query)))).toEqual([1, 2, 0.3, 8, 1, 1, 1]);
  });

  test('is stored in the address unless it is the default', () => {
    expect([1, 0.125, Math.SQRT2].map(playbackSpeedForAddress)).toEqual([null, '0.125', '1.41']);
  });

  test('is shown with few digits', () => {
    expect([0.125, 0.25, 0.5, 1, Math.SQRT2, 8].map(formatPlaybackSpeed)).toEqual([
      '⅛×',
      '¼×',
      '½×',
      '1×',
      '1.4×',
      '8×',
    ]);
  });
});

test('a pointer near the ring is on the edge between two ranks, and a pointer near the centre is on no edge', () => {
  const options = { width: 400, height: 400, n: 4, textSize: 13, named: false, shape: 'ring' as const, focus: null };
  const layout = layoutRing(options);
  const ways = [0, 1, 2, 3].map((rank) => wayBetweenRanks(layout, rank, (rank + 1) % 4));
  const on = (degrees: number, radius = layout.radius): number | null => {
    const { x, y } = pointAtAngle(layout, (degrees * Math.PI) / 180, radius);
    return indexOfWayAt(ways, x, y);
  };
  // Rank 0 is at the top, and its edge leads to the right.
  expect([-45, 45, 135, 225].map((degrees) => on(degrees))).toEqual([0, 1, 2, 3]);
  expect(on(-45, layout.radius + 20)).toBe(0);
  expect(on(-45, layout.radius / 2)).toBeNull();
});
