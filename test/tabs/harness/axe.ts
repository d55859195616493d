/** Accessibility rules of axe. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** In the middle of a transition, colours may have less contrast than before and after. */
const TRANSITIONS = `Promise.allSettled(
  document.getAnimations().filter((one) => one instanceof CSSTransition).map(({ finished }) => finished),
).then(() => {})`;

/**
 * Returns the violations that axe finds on a page, one text for each.
 *
 * @param scope selector of the part to check.
 */
export async function violationsOn(
  page: { evaluate: (script: string) => Promise<unknown> },
  scope = ':root',
): Promise<string[]> {
  await page.evaluate(TRANSITIONS);
  await page.evaluate(AXE);
  const found = (await page.evaluate(`axe.run(${JSON.stringify(scope)})`)) as AxeResults;
  return found.violations.map(
    ({ help, nodes }) => `${help}: ${nodes.map(({ target }) => target.join(' ')).join('; ')}`,
  );
}
