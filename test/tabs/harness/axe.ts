/** Accessibility rules of axe. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Ends transitions: in the middle of one, colours may have less contrast than before and after. */
const WITHOUT_TRANSITIONS = `{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('*, *::before, *::after { transition: none !important }');
  document.adoptedStyleSheets.push(sheet);
}`;

/**
 * Returns the violations that axe finds on a page, one text for each.
 *
 * @param scope selector of the part to check.
 */
export async function violationsOn(
  page: { evaluate: (script: string) => Promise<unknown> },
  scope = ':root',
): Promise<string[]> {
  await page.evaluate(WITHOUT_TRANSITIONS);
  await page.evaluate(AXE);
  const found = (await page.evaluate(`axe.run(${JSON.stringify(scope)})`)) as AxeResults;
  return found.violations.map(
    ({ help, nodes }) => `${help}: ${nodes.map(({ target }) => target.join(' ')).join('; ')}`,
  );
}
