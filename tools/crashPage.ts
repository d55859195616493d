/** Ends the process of a page. */
import type { Page } from 'playwright-core';

/** Resolves when the browser has noticed that the process is gone. */
export async function crashPage(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const crashed = page.waitForEvent('crash');
  // The page cannot answer.
  session.send('Page.crash').catch(() => {});
  await crashed;
}
