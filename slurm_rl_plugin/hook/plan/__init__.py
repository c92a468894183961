"""Plan estimates from cycle to cycle: who gets one, what heads were promised, the way back."""
