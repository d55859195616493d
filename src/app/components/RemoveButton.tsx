/** For hosts: removes a member from the room. */
import { sendToEngine } from '../state/store.ts';
import { uiMessages } from '../locales/index.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function RemoveButton({ member, name }: { member: string; name: string }) {
  const { controls } = uiMessages.value.lobby;
  return (
    <ConfirmButton
      class="quiet small-button"
      label={controls.remove}
      name={controls.removeWhom(name)}
      title={controls.removeAbout}
      question={controls.removeQuestion(name)}
      yes={controls.remove}
      no={controls.keep}
      onyes={() => sendToEngine({ type: 'remove', member })}
    />
  );
}
