/** Tests the tour and its pictures. */
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { tourPage } from '../../tools/tour/tourPage.ts';
import { STOPS } from '../../tools/tour/visit.ts';

const DOCS = path.resolve(import.meta.dirname, '../../docs');
/** The largest size of all pictures together, in bytes. */
const MOST_BYTES = 1_500_000;

test('docs/tour.md shows every page, with pictures that exist and are small', async () => {
  const page = await readFile(path.join(DOCS, 'tour.md'), 'utf8');
  expect(page).toBe(tourPage(Object.values(STOPS)));
  const pictures = Array.from(page.matchAll(/src="([^"]+)"/g), ([, src]) => src!);
  expect(pictures).toHaveLength(4 * Object.keys(STOPS).length);
  const sizes = await Promise.all(pictures.map(async (src) => (await stat(path.join(DOCS, src))).size));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MOST_BYTES);
});
