/** Builds a page of a tool or of a test. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '..');

/**
 * Builds a page into a temporary folder.
 *
 * @param html path of the page, both in the project and in the folder.
 */
export async function buildPage(html: string): Promise<{ dist: string; remove: () => Promise<void> }> {
  const dist = await mkdtemp(path.join(tmpdir(), 'peergrad-page-'));
  // Vite is loaded only here, because most commands and tests have no page.
  const { build } = await import('vite');
  const input = path.join(ROOT, html);
  await build({ root: ROOT, logLevel: 'error', build: { outDir: dist, rolldownOptions: { input } } });
  return { dist, remove: () => rm(dist, { recursive: true }) };
}
