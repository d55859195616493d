/** A link to the page that checks the network, for a tab that has failed to connect. */
import { messages } from '../locales/index.ts';

/** The page opens in another tab, because this tab stays in its room. */
export function NetworkCheckLink() {
  return (
    <p class="small">
      <a href="#network" target="_blank" rel="noopener">
        {messages.value.network.link}
      </a>
    </p>
  );
}
